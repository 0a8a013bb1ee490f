%% The dam of the original: it stands before the log server and lets a line pass only while the
%% server's queue is short, else it sleeps and looks again.
-module(log_dam).
-export([start/3]).

%% Starts a dam that ends, and reports the longest queue it saw, when `Expected` lines have passed.
start(Server, {Threshold, WaitMilliseconds}, Expected) ->
    Main = self(),
    spawn_opt(
        fun() ->
            Peak = pass_on(Server, Threshold, WaitMilliseconds, Expected, 0),
            Main ! {log_dam_ended, self(), Peak}
        end,
        [{message_queue_data, off_heap}]
    ).

pass_on(_, _, _, 0, Peak) ->
    Peak;
pass_on(Server, Threshold, WaitMilliseconds, Left, Peak) ->
    receive
        {log, _} = Message ->
            Longest = await_room(Server, Threshold, WaitMilliseconds, Peak),
            Server ! Message,
            pass_on(Server, Threshold, WaitMilliseconds, Left - 1, Longest)
    end.

await_room(Server, Threshold, WaitMilliseconds, Longest) ->
    case process_info(Server, message_queue_len) of
        {message_queue_len, Length} when Length > Threshold ->
            timer:sleep(WaitMilliseconds),
            await_room(Server, Threshold, WaitMilliseconds, max(Longest, Length));
        {message_queue_len, Length} ->
            %% With the line that passes now.
            max(Longest, Length + 1)
    end.
