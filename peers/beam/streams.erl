%% Records to disk: disk_log, which frames each record and syncs on demand.
%%
%% Bulks are durable at least once in 8 MiB, or every 50 ms, or never; commits are one record each,
%% waited for. disk_log never writes into files that were written before, and seals nothing.
-module(streams).
-export([run/2]).

-define(PIECE_BYTES, 8388608).
-define(INTERVAL_NANOSECONDS, 50000000).
-define(RECORD_BYTES, 128).

%% A call of disk_log takes microseconds, so that a part of the others' work tells the rate.
run("stream_fresh", Scale) -> bulk(?RECORD_BYTES, 1, durable, clock:units(1048576, Scale));
run("stream_many", Scale) -> bulk(?RECORD_BYTES, 100, durable, clock:units(8388608, Scale));
run("stream_4k", Scale) -> bulk(4096, 1, durable, clock:units(262144, Scale));
run("stream_interval", Scale) -> bulk(?RECORD_BYTES, 1, interval, clock:units(500000, Scale));
run("stream_none", Scale) -> bulk(?RECORD_BYTES, 1, none, clock:units(500000, Scale));
run("stream_commit_1", Scale) -> commits(1, clock:units(4000, Scale));
run("stream_commit_16", Scale) -> commits(16, clock:units(4000, Scale));
run("stream_commit_256", Scale) -> commits(256, clock:units(4000, Scale));
run("stream_" ++ _, _) -> {skipped, "it seals nothing, and recycles no files"}.

bulk(RecordBytes, RecordsACall, Mode, Count) ->
    Call = lists:duplicate(RecordsACall, binary:copy(<<7>>, RecordBytes)),
    with_log(fun(Log) ->
        Begun = clock:now(),
        write(Log, Call, RecordsACall, RecordBytes, Mode, Count, 0, Begun),
        Mode =:= none orelse sync(Log),
        Seconds = clock:seconds(Begun, clock:now()),
        Fields = [{"qps", Count / Seconds}, {"mb_per_s", Count * RecordBytes / 1.0e6 / Seconds}],
        {measured, Count, Seconds, "msg", Fields}
    end).

write(_, _, _, _, _, Left, _, _) when Left =< 0 ->
    ok;
write(Log, Call, RecordsACall, RecordBytes, Mode, Left, Unsynced, Synced) ->
    ok = disk_log:blog_terms(Log, Call),
    Bytes = Unsynced + RecordsACall * RecordBytes,
    case is_due(Mode, Bytes, Synced) of
        true ->
            sync(Log),
            write(Log, Call, RecordsACall, RecordBytes, Mode, Left - RecordsACall, 0, clock:now());
        false ->
            write(Log, Call, RecordsACall, RecordBytes, Mode, Left - RecordsACall, Bytes, Synced)
    end.

is_due(durable, Bytes, _) -> Bytes >= ?PIECE_BYTES;
is_due(interval, _, Synced) -> clock:now() - Synced >= ?INTERVAL_NANOSECONDS;
is_due(none, _, _) -> false.

commits(Producers, Count) ->
    Share = max(1, Count div Producers),
    with_log(fun(Log) ->
        Begun = clock:now(),
        Each = [spawn_monitor(fun() -> exit({done, commit(Log, Share, [])}) end)
                || _ <- lists:seq(1, Producers)],
        Latencies = lists:sort(lists:append([ended(Pid, Monitor) || {Pid, Monitor} <- Each])),
        Seconds = clock:seconds(Begun, clock:now()),
        Made = length(Latencies),
        At = fun(Percent) -> lists:nth(1 + (Made - 1) * Percent div 100, Latencies) / 1.0e3 end,
        Fields = [{"qps", Made / Seconds}, {"p50_us", At(50)}, {"p99_us", At(99)}],
        {measured, Made, Seconds, "msg", Fields}
    end).

commit(_, 0, Latencies) ->
    Latencies;
commit(Log, Left, Latencies) ->
    Begun = clock:now(),
    ok = disk_log:blog(Log, binary:copy(<<7>>, ?RECORD_BYTES)),
    sync(Log),
    commit(Log, Left - 1, [clock:now() - Begun | Latencies]).

ended(Pid, Monitor) ->
    receive
        {'DOWN', Monitor, process, Pid, {done, Latencies}} -> Latencies
    end.

sync(Log) -> ok = disk_log:sync(Log).

%% Beside the compiled modules: on the disk of the checkout, as for every peer.
with_log(Use) ->
    Name = io_lib:format("streams-~s-~w", [os:getpid(), erlang:unique_integer([positive])]),
    Path = filename:join(filename:dirname(code:which(?MODULE)), lists:flatten(Name)),
    {ok, Log} = disk_log:open([{name, Path}, {file, Path}, {type, halt}, {format, internal}]),
    try
        Use(Log)
    after
        disk_log:close(Log),
        file:delete(Path)
    end.
