%% One process of a hundred blocks its scheduler; the figures are the latencies of the others, and
%% apart from them those of the letters that it sends just before.
%%
%% A plain blocking call is a native function that sleeps on a normal scheduler, as one not marked
%% dirty would. The emulator has one for its own tests, erts_debug:dirty(normal, wait, _), so that no
%% native code needs to be compiled here. A declared one sleeps on a dirty scheduler for input and
%% output, which is where files and well-behaved native functions run.
%%
%% The generator is a process, since nothing else may send here. It sleeps by the emulator's timers,
%% whose unit is a millisecond, so letters leave in bursts up to two milliseconds late: that much of
%% the latency is the generator's. Were it to spin, it would keep one of the two schedulers. It and
%% the process that blocks are bound to different ones, so that no block ever stops the load. That is
%% kind to the BEAM: at this load it keeps nearly all others on the generator's scheduler too.
-module(blocking).
-export([run/2]).

-define(ACTORS, 100).
-define(LETTER_PERIOD_NS, 100000).
-define(LETTERS_PER_BLOCK, 2000).
-define(LETTERS_BEFORE_BLOCK, 8).
-define(BLOCK_MS, 100).

run("blocking", Scale) ->
    drive(fun() -> erts_debug:dirty(normal, wait, ?BLOCK_MS) end, clock:units(100000, Scale));
run("blocking_declared", Scale) ->
    drive(fun() -> erts_debug:dirty_io(wait, ?BLOCK_MS) end, clock:units(100000, Scale));
run("blocking_reply_300", Scale) -> replies(clock:units(300, Scale));
run("blocking_reply_1k", Scale) -> replies(clock:units(1000, Scale));
run("blocking_reply_10k", Scale) -> replies(clock:units(10000, Scale));
run(Work, _) ->
    throw({usage, "unknown work " ++ Work}).

%% So many processes ask one server, and wait.
replies(Count) ->
    Main = self(),
    Server = spawn(fun reply_to_all/0),
    Callers = [spawn(fun() -> call(Server, Main) end) || _ <- lists:seq(1, Count)],
    Started = clock:now(),
    [Caller ! go || Caller <- Callers],
    [receive done -> ok end || _ <- Callers],
    {measured, Count, clock:seconds(Started, clock:now()), "ask", []}.

reply_to_all() ->
    receive
        {ask, From, Tag} -> From ! {Tag, reply}
    end,
    reply_to_all().

call(Server, Main) ->
    receive go -> ok end,
    Tag = make_ref(),
    Server ! {ask, self(), Tag},
    receive {Tag, reply} -> Main ! done end.

drive(Block, Count) ->
    Main = self(),
    Others = [spawn(fun() -> note_each(Main, [], [], 2) end) || _ <- lists:seq(2, ?ACTORS)],
    Blocker = spawn_opt(
        fun() -> block_on_each(Main, Block, Others, 0) end,
        [{scheduler, 2}]
    ),
    Started = clock:now(),
    spawn_opt(
        fun() -> generate(Blocker, list_to_tuple(Others), Started, Count, 0) end,
        [{scheduler, 1}, {priority, high}]
    ),
    {Noted, Woken} = lists:unzip([latencies() || _ <- Others]),
    Ended = clock:now(),
    Blocked =
        receive
            {blocked, Times} -> Times
        end,
    OtherLatencies = sorted(Noted, Count),
    WokenLatencies = sorted(Woken, Blocked * ?LETTERS_BEFORE_BLOCK),
    Fields = [
        {"p50_us", quantile(OtherLatencies, 0.5)},
        {"p99_us", quantile(OtherLatencies, 0.99)},
        {"p999_us", quantile(OtherLatencies, 0.999)},
        {"max_us", quantile(OtherLatencies, 1.0)},
        {"woken_p50_us", quantile(WokenLatencies, 0.5)},
        {"woken_p99_us", quantile(WokenLatencies, 0.99)},
        {"woken_max_us", quantile(WokenLatencies, 1.0)},
        {"blocked_count", Blocked}
    ],
    {measured, Count, clock:seconds(Started, Ended), "msg", Fields}.

latencies() ->
    receive
        {latencies, Noted, Woken} -> {Noted, Woken}
    end.

sorted(Lists, Count) ->
    Latencies = lists:sort(lists:append(Lists)),
    Count = length(Latencies),
    list_to_tuple(Latencies).

%% The smallest latency that at least this share of all does not exceed, in microseconds.
quantile(Sorted, Share) -> element(ceil(Share * tuple_size(Sorted)), Sorted) / 1000.

%% Ends when both the generator and the process that blocks have said that nothing more will come.
note_each(Main, Noted, Woken, 0) ->
    Main ! {latencies, Noted, Woken};
note_each(Main, Noted, Woken, SendersLeft) ->
    receive
        {note, Scheduled} ->
            note_each(Main, [clock:now() - Scheduled | Noted], Woken, SendersLeft);
        {woken, Sent} ->
            note_each(Main, Noted, [clock:now() - Sent | Woken], SendersLeft);
        stop ->
            note_each(Main, Noted, Woken, SendersLeft - 1)
    end.

block_on_each(Main, Block, Others, Times) ->
    receive
        block ->
            [Other ! {woken, clock:now()} || Other <- lists:sublist(Others, ?LETTERS_BEFORE_BLOCK)],
            ok = Block(),
            block_on_each(Main, Block, Others, Times + 1);
        stop ->
            [Other ! stop || Other <- Others],
            Main ! {blocked, Times}
    end.

generate(Blocker, Others, _, Count, Count) ->
    [Process ! stop || Process <- [Blocker | tuple_to_list(Others)]];
generate(Blocker, Others, Started, Count, Number) ->
    Scheduled = Started + (Number + 1) * ?LETTER_PERIOD_NS,
    sleep_until(Scheduled),
    case Number rem ?LETTERS_PER_BLOCK of
        0 -> Blocker ! block;
        _ -> ok
    end,
    element(1 + Number rem tuple_size(Others), Others) ! {note, Scheduled},
    generate(Blocker, Others, Started, Count, Number + 1).

sleep_until(Time) ->
    case Time - clock:now() of
        Left when Left > 0 ->
            receive
            after ceil(Left / 1000000) -> ok
            end;
        _ ->
            ok
    end.
