%% Processes that pass messages on at random, watched by one that asks for each one's process_info, as
%% observer, etop and recon do.
%%
%% Phases and figures are those of peers/rust/src/watching.rs. The watcher's processor time is not told
%% apart from that of the schedulers that it runs on.
-module(watching).
-export([run/2]).

-define(PHASE_MS, 2000).
-define(PHASES, 8).
-define(ACTORS_A_MESSAGE, 10).
-define(ALL, watching_all).
-define(ITEMS, [message_queue_len, reductions, total_heap_size, status]).

run("board_10k", Scale) -> measure(10000, 10, clock:units(?PHASES, Scale));
run("board_10k_1hz", Scale) -> measure(10000, 1, clock:units(?PHASES, Scale));
run("board_100k", Scale) -> measure(100000, 10, clock:units(?PHASES, Scale));
run("board_100k_1hz", Scale) -> measure(100000, 1, clock:units(?PHASES, Scale));
run(Work, _) -> throw({usage, "unknown work " ++ Work}).

measure(Count, Hertz, PhasesCount) ->
    %% It does next to nothing, and has to be on time.
    process_flag(priority, high),
    Hops = counters:new(1, [write_concurrency]),
    Passers = [spawn_link(fun() -> pass(Hops, Number) end) || Number <- lists:seq(1, Count)],
    %% Shared without copies, as one vector of references is elsewhere.
    persistent_term:put(?ALL, list_to_tuple(Passers)),
    [Passer ! pass || Passer <- lists:sublist(Passers, Count div ?ACTORS_A_MESSAGE)],
    timer:sleep(?PHASE_MS div 2),
    Pairs = [pair(Hops, Hertz) || _ <- lists:seq(1, PhasesCount div 2)],
    {Nobody, Watched, Readings} = lists:unzip3(Pairs),
    {HopsCount, Seconds} = sum(Nobody),
    {_, WatchedSeconds} = sum(Watched),
    {ReadCount, BusySeconds} = sum(Readings),
    %% The last one of a phase may be half done.
    ReadingsCount = ReadCount / Count,
    true = ReadingsCount > 0,
    Ratios = [rate(W) / rate(N) || {N, W, _} <- Pairs],
    Fields = [
        {"qps", HopsCount / Seconds},
        {"watched_ratio", median(Ratios)},
        {"readings_per_s", ReadingsCount / WatchedSeconds},
        {"reading_ms", BusySeconds * 1000 / ReadingsCount}
    ],
    {measured, HopsCount, Seconds, "msg", Fields}.

pass(Hops, Random) ->
    receive
        pass ->
            counters:add(Hops, 1, 1),
            Next = (Random * 69069 + 1) band 16#ffffffff,
            All = persistent_term:get(?ALL),
            element((Next bsr 8) rem tuple_size(All) + 1, All) ! pass,
            pass(Hops, Next)
    end.

pair(Hops, Hertz) ->
    Nobody = phase(Hops, fun() -> timer:sleep(?PHASE_MS) end),
    Main = self(),
    Watched = phase(Hops, fun() ->
        Deadline = clock:now() + ?PHASE_MS * 1000000,
        spawn_opt(fun() -> Main ! watch(Deadline, 1000000000 div Hertz, 0, 0) end, [link]),
        timer:sleep(?PHASE_MS)
    end),
    receive
        {watched, ReadCount, BusySeconds} -> {Nobody, Watched, {ReadCount, BusySeconds}}
    end.

phase(Hops, Do) ->
    HopsBefore = counters:get(Hops, 1),
    Started = clock:now(),
    Do(),
    HopsCount = counters:get(Hops, 1) - HopsBefore,
    {HopsCount, clock:seconds(Started, clock:now())}.

%% Reads all, and again when it is time; until the deadline.
watch(Deadline, Period, ReadCount, BusySeconds) ->
    Started = clock:now(),
    Infos = read(processes(), Deadline, []),
    Ended = clock:now(),
    Read = ReadCount + length(Infos),
    Busy = BusySeconds + clock:seconds(Started, Ended),
    case max(Ended, Started + Period) of
        Next when Next < Deadline ->
            timer:sleep((Next - Ended) div 1000000),
            watch(Deadline, Period, Read, Busy);
        _ ->
            {watched, Read, Busy}
    end.

read([], _, Infos) ->
    Infos;
read([Process | Processes], Deadline, Infos) ->
    case clock:now() < Deadline of
        true -> read(Processes, Deadline, [process_info(Process, ?ITEMS) | Infos]);
        false -> Infos
    end.

rate({Count, Seconds}) -> Count / Seconds.

sum(Pairs) -> {lists:sum([C || {C, _} <- Pairs]), lists:sum([S || {_, S} <- Pairs])}.

median(Values) ->
    Sorted = lists:sort(Values),
    Count = length(Sorted),
    (lists:nth((Count + 1) div 2, Sorted) + lists:nth(Count div 2 + 1, Sorted)) / 2.
