%% A gen_server that is asked for more than it can answer, by calls with a timeout, and how many answers come in
%% time.
%%
%% A request takes so many steps as take 200 us when nothing else runs: the emulator does not tell how much
%% processor time a process has used. Each client is a process of its own, as in a real service. Clients and
%% generator are bound to one scheduler and the server to the other, as every peer's service has a core of its
%% own. The generator sleeps by the emulator's timers, whose unit is a millisecond.
%%
%% The capacity is measured first, as with every peer: requests handled a second when three times as much is
%% asked for as the time of a request allows. The mailbox has no bound.
-module(goodput).
-behaviour(gen_server).
-export([run/2, init/1, handle_call/3, handle_cast/2]).

-define(REQUEST_NS, 200000).
-define(DEADLINE_NS, 50000000).
-define(CAPACITY_FACTOR, 3).
-define(CAPACITY_NS, 500000000).
%% Nobody gives up while the capacity is measured.
-define(PATIENCE_NS, 60000000000).
-define(CLIENTS_SCHEDULER, 1).
-define(SERVER_SCHEDULER, 2).
%% The first counters; behind them a histogram of latencies in steps of 0.1 ms.
-define(IN_TIME, 1).
-define(LATE, 2).
-define(HANDLED, 3).
-define(STEP_NS, 100000).
-define(STEPS, 20000).

run("goodput_" ++ Factor, Scale) ->
    Steps = calibrate(),
    Offered = ?CAPACITY_FACTOR * 1.0e9 / ?REQUEST_NS,
    {Flooded, Seconds} = ask(Steps, Offered, ?CAPACITY_NS, ?PATIENCE_NS),
    Capacity = max(1.0, counters:get(Flooded, ?HANDLED) / Seconds),
    ok = file:write_file("/proc/self/clear_refs", "5"),
    Time = clock:units(2000, Scale) * 1000000,
    {Counts, _} = ask(Steps, list_to_integer(Factor) * Capacity, Time, ?DEADLINE_NS),
    outcome(Counts, Time * 3 / 5 / 1.0e9, Capacity).

outcome(Counts, Seconds, Capacity) ->
    InTime = counters:get(Counts, ?IN_TIME),
    Late = counters:get(Counts, ?LATE),
    Offered = InTime + Late,
    {measured, Offered, Seconds, "request", [
        {"capacity_per_s", Capacity},
        {"offered_per_s", Offered / Seconds},
        {"goodput_per_s", InTime / Seconds},
        {"goodput_over_capacity", InTime / Seconds / Capacity},
        {"late_per_s", Late / Seconds},
        {"refused_per_s", 0},
        {"p50_ms", percentile(Counts, ceil(Offered * 0.5))},
        {"p99_ms", percentile(Counts, ceil(Offered * 0.99))},
        {"rss_peak_mb", peak_bytes() / 1.0e6}
    ]}.

percentile(Counts, Rank) -> percentile(Counts, Rank, 1).

percentile(_, _, Step) when Step > ?STEPS -> ?STEPS * ?STEP_NS / 1.0e6;
percentile(Counts, Rank, Step) ->
    case Rank - counters:get(Counts, ?HANDLED + Step) of
        Left when Left > 0 -> percentile(Counts, Left, Step + 1);
        _ -> Step * ?STEP_NS / 1.0e6
    end.

%% Asks a server of its own at this rate for this time: a Poisson process. The counts, and the seconds until the
%% last client knew.
ask(Steps, Rate, Time, Deadline) ->
    Counts = counters:new(?HANDLED + ?STEPS, [write_concurrency]),
    Options = [{spawn_opt, [{scheduler, ?SERVER_SCHEDULER}]}],
    {ok, Server} = gen_server:start(?MODULE, {Steps, Counts}, Options),
    Begun = clock:now(),
    Ask = fun(Due) ->
        IsMeasured = Due >= Time div 5 andalso Due < Time * 4 div 5,
        spawn_opt(
            fun() -> client(Server, Begun, Due, Deadline, IsMeasured, Counts) end,
            [{scheduler, ?CLIENTS_SCHEDULER}]
        )
    end,
    {Generator, Monitor} = spawn_opt(
        fun() ->
            rand:seed(exsss, 1),
            generate(Ask, Begun, gap(Rate), Rate, Time)
        end,
        [monitor, {scheduler, ?CLIENTS_SCHEDULER}]
    ),
    receive
        {'DOWN', Monitor, process, Generator, normal} -> ok
    end,
    %% The last clients give up.
    receive after ?DEADLINE_NS div 1000000 + 10 -> ok end,
    Ended = clock:now(),
    exit(Server, kill),
    {Counts, clock:seconds(Begun, Ended)}.

gap(Rate) -> round(-math:log(rand:uniform_real()) / Rate * 1.0e9).

generate(_, _, Due, _, Time) when Due >= Time -> ok;
generate(Ask, Begun, Due, Rate, Time) ->
    case Due - (clock:now() - Begun) of
        Left when Left > 0 ->
            receive after Left div 1000000 + 1 -> ok end,
            generate(Ask, Begun, Due, Rate, Time);
        _ ->
            Ask(Due),
            generate(Ask, Begun, Due + gap(Rate), Rate, Time)
    end.

client(Server, Begun, Due, Deadline, IsMeasured, Counts) ->
    Left = max(0, Begun + Due + Deadline - clock:now()),
    Answer =
        try
            gen_server:call(Server, work, Left div 1000000)
        catch
            exit:_ -> given_up
        end,
    Latency = clock:now() - Begun - Due,
    case IsMeasured of
        false -> ok;
        true ->
            Kind = case Answer of
                done when Latency =< ?DEADLINE_NS -> ?IN_TIME;
                _ -> ?LATE
            end,
            counters:add(Counts, Kind, 1),
            Step = min(?STEPS, Latency div ?STEP_NS + 1),
            counters:add(Counts, ?HANDLED + Step, 1)
    end.

init(State) -> {ok, State}.

handle_call(work, _From, {Steps, Counts} = State) ->
    compute(Steps, 1),
    counters:add(Counts, ?HANDLED, 1),
    {reply, done, State}.

handle_cast(_, State) -> {noreply, State}.

%% The steps of a request, by the quickest of some trials.
calibrate() ->
    Steps = 1000000,
    Trial = fun(_) ->
        Begun = clock:now(),
        compute(Steps, 1),
        clock:now() - Begun
    end,
    Quickest = lists:min([Trial(T) || T <- lists:seq(1, 50)]),
    max(1, round(Steps * ?REQUEST_NS / Quickest)).

compute(0, Value) -> Value;
compute(Steps, Value) -> compute(Steps - 1, (Value * 69069 + 1) band 16#ffffffff).

peak_bytes() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kibibytes]} = re:run(Status, "VmHWM:\\s+(\\d+) kB", [{capture, all_but_first, list}]),
    list_to_integer(Kibibytes) * 1024.
