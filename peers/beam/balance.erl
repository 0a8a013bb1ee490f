%% 400 equal processes of long native calls, all born on the run queue of their parent.
%%
%% crypto hashes large binaries in pieces of 20,000 bytes and counts reductions for each, so its MD5
%% gives way in between, as the native code of the other peers does not: it is what users of the BEAM
%% have. The ideal is the processor time that was used, spread evenly over all schedulers; a scheduler
%% that spins for want of work counts as used.
-module(balance).
-export([run/2, lab/1]).

-define(PROCESSES, 400).
-define(HASHED_BYTES, (1 bsl 20)).
-define(SPIN_ITERATIONS, 5).

run("balance_400", Scale) -> race(clock:units(50, Scale));
run("balance_spread", _) -> {skipped, "a process is born on the run queue of its parent"};
run(Work, _) -> throw({usage, "unknown work " ++ Work}).

race(Repeats) ->
    CpuBefore = cpu_milliseconds(),
    {Elapsed, _} = release(?PROCESSES, Repeats, ?SPIN_ITERATIONS, md5(?HASHED_BYTES)),
    CpuSeconds = (cpu_milliseconds() - CpuBefore) / 1000,
    [Shortest | _] = Elapsed,
    Longest = lists:last(Elapsed),
    Schedulers = erlang:system_info(schedulers_online),
    Fields = [
        {"max_over_min", Longest / Shortest},
        {"elapsed_min_s", Shortest},
        {"elapsed_median_s", lists:nth(?PROCESSES div 2 + 1, Elapsed)},
        {"elapsed_max_s", Longest},
        {"makespan_over_ideal", Longest / (CpuSeconds / Schedulers)},
        {"utilisation", CpuSeconds / (Longest * Schedulers)},
        {"cpu_s", CpuSeconds},
        {"workers", Schedulers}
    ],
    {measured, ?PROCESSES * Repeats, Longest, "hash", Fields}.

%% One run of `freeboard lab balance`. `native` is md5, or wait: a native function that keeps its scheduler for
%% `wait_ms` and does not give way, as a call that costs one reduction. With `wait_ms` 0 it lasts as long as MD5 over
%% `bytes` takes here.
lab(#{procs := Count, repeats := Repeats, spin := Spin, native := Native, bytes := Bytes} = Parameters) ->
    Call =
        case Native of
            md5 -> md5(Bytes);
            wait -> wait(Bytes, maps:get(wait_ms, Parameters))
        end,
    %% The runs and pauses after which schedulers of the original collapsed.
    #{iterations := Iterations, pause_ms := PauseMs, online := Online} = Parameters,
    [
        begin
            release(Count, Repeats, Spin, Call),
            timer:sleep(PauseMs)
        end
     || _ <- lists:seq(1, Iterations)
    ],
    erlang:system_flag(schedulers_online, Online),
    erlang:system_flag(scheduler_wall_time, true),
    CpuBefore = cpu_milliseconds(),
    TimesBefore = erlang:statistics(scheduler_wall_time),
    {Elapsed, Calls} = release(Count, Repeats, Spin, Call),
    Count = length(Elapsed),
    #{
        elapsed => Elapsed,
        native_us_mean => lists:sum(Calls) / (Count * Repeats) / 1000,
        cpu_s => (cpu_milliseconds() - CpuBefore) / 1000,
        utilisation => utilisation(TimesBefore, erlang:statistics(scheduler_wall_time))
    }.

%% The share of its time that each scheduler ran processes or native functions.
utilisation(Before, After) ->
    Pairs = lists:zip(lists:sort(Before), lists:sort(After)),
    Normal = lists:sublist(Pairs, erlang:system_info(schedulers)),
    [(A1 - A0) / max(1, T1 - T0) || {{_, A0, T0}, {_, A1, T1}} <- Normal].

md5(Bytes) ->
    Text = binary:copy(<<16#5a>>, Bytes),
    Digest = crypto:hash(md5, Text),
    fun() -> Digest = crypto:hash(md5, Text) end.

wait(Bytes, 0) ->
    Hash = md5(Bytes),
    {Microseconds, _} = lists:min([timer:tc(Hash) || _ <- [1, 2, 3]]),
    wait(Bytes, max(1, round(Microseconds / 1000)));
wait(_, Milliseconds) ->
    fun() -> ok = erts_debug:dirty(normal, wait, Milliseconds) end.

%% All are born on the run queue of this process. Returns the sorted seconds of each, and the nanoseconds that each
%% was in native calls.
release(Count, Repeats, Spin, Call) ->
    Main = self(),
    Process = fun() ->
        receive
            go -> ok
        end,
        Native = repeat(Call, Spin, Repeats, 0),
        Main ! {ended, clock:now(), Native}
    end,
    Processes = [spawn(Process) || _ <- lists:seq(1, Count)],
    Released = clock:now(),
    [P ! go || P <- Processes],
    {Elapsed, Native} = lists:unzip([elapsed(Released) || _ <- Processes]),
    {lists:sort(Elapsed), Native}.

elapsed(Released) ->
    receive
        {ended, At, Native} -> {clock:seconds(Released, At), Native}
    end.

repeat(_, _, 0, Native) ->
    Native;
repeat(Call, Spin, Repeats, Native) ->
    Begun = clock:now(),
    Call(),
    Ended = clock:now(),
    spin(Spin),
    repeat(Call, Spin, Repeats - 1, Native + Ended - Begun).

spin(0) -> ok;
spin(Iterations) -> spin(Iterations - 1).

cpu_milliseconds() ->
    {Total, _} = erlang:statistics(runtime),
    Total.
