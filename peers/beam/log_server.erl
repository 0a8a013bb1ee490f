%% The log server of the original: many senders, one process, one file.
%%
%% With `scan` each line goes through a process whose answer carries a tag that is not fresh, so the
%% receive that waits for it looks through the whole mailbox. That is how file writes behaved before
%% OTP 21, and how any such receive behaves today.
-module(log_server).
-export([start/3, stop/1]).

-define(DELAYED, {delayed_write, 65536, 2000}).

-record(state, {
    write :: fun((binary()) -> ok),
    close :: fun(() -> ok),
    %% One counter, which anybody may set to have the server end at once.
    stop,
    main :: pid(),
    %% `none` if nothing can be read back.
    path :: file:name() | none,
    expected :: pos_integer(),
    %% Clock readings at the tenth and at the last hundredth of the flood.
    marks = #{} :: #{atom() => integer()}
}).

%% Starts a server that ends, and reports, when it has written `Expected` lines.
start(Path, Mode, Expected) ->
    Main = self(),
    Stop = atomics:new(1, []),
    Server = spawn_opt(
        fun() ->
            {Write, Close} = open(Path, Mode),
            State = #state{
                write = Write,
                close = Close,
                stop = Stop,
                main = Main,
                path = path(Path, Mode),
                expected = Expected
            },
            Main ! {ready, self()},
            loop(State, 0)
        end,
        [{message_queue_data, queue_place(Mode)}]
    ),
    receive
        {ready, Server} -> {Server, Stop}
    end.

path(_, Mode) when Mode =:= none; Mode =:= null -> none;
path(Path, _) -> Path.

%% Each mode has what is faster for it: a scan walks a queue on the heap at twice the speed, while
%% without a scan a queue off the heap spares the collector and lets many senders append at once.
queue_place(scan) -> on_heap;
queue_place(_) -> off_heap.

%% Has the server end with what it has written so far.
stop(Stop) -> atomics:put(Stop, 1, 1).

open(_, none) -> {fun(_) -> ok end, fun() -> ok end};
open(_, null) -> open_file("/dev/null", [append, raw]);
open(Path, raw) -> open_file(Path, [append, raw]);
open(Path, buffered) -> open_file(Path, [append, raw, ?DELAYED]);
open(Path, append) -> open_file(Path, [append]);
open(Path, 'append-delayed') -> open_file(Path, [append, ?DELAYED]);
open(Path, scan) ->
    Server = self(),
    Sink = spawn_link(fun() ->
        {ok, File} = file:open(Path, [append, raw]),
        sink(Server, File)
    end),
    Call = fun(Request) ->
        Sink ! Request,
        receive
            {sink_reply, ok} -> ok
        end
    end,
    {fun(Line) -> Call({write, Line}) end, fun() -> Call(close) end}.

open_file(Path, Modes) ->
    {ok, File} = file:open(Path, Modes),
    {fun(Line) -> ok = file:write(File, Line) end, fun() -> ok = file:close(File) end}.

sink(Server, File) ->
    receive
        {write, Line} ->
            Server ! {sink_reply, file:write(File, Line)},
            sink(Server, File);
        close ->
            Server ! {sink_reply, file:close(File)}
    end.

loop(#state{expected = Expected} = State, Expected) ->
    finish(State, Expected);
loop(State, Written) ->
    receive
        {log, Line} ->
            (State#state.write)(Line),
            case atomics:get(State#state.stop, 1) of
                0 -> loop(mark(State, Written + 1), Written + 1);
                _ -> finish(State, Written + 1)
            end
    end.

mark(#state{expected = Expected, marks = Marks} = State, Written) ->
    if
        Written =:= Expected div 10 -> State#state{marks = Marks#{tenth => clock:now()}};
        Written =:= Expected - Expected div 100 -> State#state{marks = Marks#{last_hundredth => clock:now()}};
        true -> State
    end.

finish(State, Written) ->
    %% Closing flushes what a delayed write still holds.
    (State#state.close)(),
    State#state.main ! {log_server_ended, self(), Written, clock:now(), State#state.marks, State#state.path}.
