%% 400 equal processes of long native calls, all born on the run queue of their parent.
%%
%% crypto hashes large binaries in pieces of 20,000 bytes and counts reductions for each, so its MD5
%% gives way in between, as the native code of the other peers does not: it is what users of the BEAM
%% have. The ideal is the processor time that was used, spread evenly over all schedulers; a scheduler
%% that spins for want of work counts as used.
-module(balance).
-export([run/2]).

-define(PROCESSES, 400).
-define(HASHED_BYTES, (1 bsl 20)).
-define(SPIN_ITERATIONS, 5).

run("balance_400", Scale) -> race(clock:units(50, Scale));
run("balance_spread", _) -> {skipped, "a process is born on the run queue of its parent"};
run(Work, _) -> throw({usage, "unknown work " ++ Work}).

race(Repeats) ->
    Main = self(),
    Text = binary:copy(<<16#5a>>, ?HASHED_BYTES),
    Digest = crypto:hash(md5, Text),
    Process = fun() ->
        receive
            go -> ok
        end,
        repeat(Text, Digest, Repeats),
        Main ! {ended, clock:now()}
    end,
    Processes = [spawn(Process) || _ <- lists:seq(1, ?PROCESSES)],
    CpuBefore = cpu_milliseconds(),
    Released = clock:now(),
    [P ! go || P <- Processes],
    Elapsed = lists:sort([elapsed(Released) || _ <- Processes]),
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

elapsed(Released) ->
    receive
        {ended, At} -> clock:seconds(Released, At)
    end.

repeat(_, _, 0) ->
    ok;
repeat(Text, Digest, Repeats) ->
    Digest = crypto:hash(md5, Text),
    spin(?SPIN_ITERATIONS),
    repeat(Text, Digest, Repeats - 1).

spin(0) -> ok;
spin(Iterations) -> spin(Iterations - 1).

cpu_milliseconds() ->
    {Total, _} = erlang:statistics(runtime),
    Total.
