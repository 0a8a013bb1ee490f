%% Records to disk: disk_log, which frames each record and syncs on demand.
%%
%% Bulks are durable at least once in 8 MiB, or every 50 ms, or never; commits are one record each,
%% waited for. disk_log never writes into files that were written before, and seals nothing.
-module(streams).
-export([run/2, lab/1]).

-define(PIECE_BYTES, 8388608).
-define(INTERVAL_NANOSECONDS, 50000000).
-define(RECORD_BYTES, 128).

%% What is written: RecordsACall records a call, made by Records from the number of the first one, until Count are written
%% or the time is over.
-record(job, {log, records, records_a_call, record_bytes, mode, count, ends = never}).

%% A call of disk_log takes microseconds, so that a part of the others' work tells the rate.
run("stream_fresh", Scale) -> bulk(?RECORD_BYTES, 1, durable, clock:units(1048576, Scale));
run("stream_many", Scale) -> bulk(?RECORD_BYTES, 100, durable, clock:units(8388608, Scale));
run("stream_4k", Scale) -> bulk(4096, 1, durable, clock:units(262144, Scale));
run("stream_interval", Scale) ->
    bulk(?RECORD_BYTES, 1, {interval, ?INTERVAL_NANOSECONDS}, clock:units(500000, Scale));
run("stream_none", Scale) -> bulk(?RECORD_BYTES, 1, none, clock:units(500000, Scale));
run("stream_commit_1", Scale) -> commits(1, clock:units(4000, Scale));
run("stream_commit_16", Scale) -> commits(16, clock:units(4000, Scale));
run("stream_commit_256", Scale) -> commits(256, clock:units(4000, Scale));
run("stream_" ++ _, _) -> {skipped, "it seals nothing, and recycles no files"}.

bulk(RecordBytes, RecordsACall, Mode, Count) ->
    Call = lists:duplicate(RecordsACall, binary:copy(<<7>>, RecordBytes)),
    with_log(fun(Log) ->
        Begun = clock:now(),
        write(#job{
            log = Log,
            records = fun(_, _) -> Call end,
            records_a_call = RecordsACall,
            record_bytes = RecordBytes,
            mode = Mode,
            count = Count
        }),
        Seconds = clock:seconds(Begun, clock:now()),
        Fields = [{"qps", Count / Seconds}, {"mb_per_s", Count * RecordBytes / 1.0e6 / Seconds}],
        {measured, Count, Seconds, "msg", Fields}
    end).

%% Returns how many it has written.
write(Job = #job{log = Log, mode = Mode}) ->
    Written = write(Job, 0, 0, clock:now()),
    Mode =:= none orelse sync(Log),
    Written.

write(#job{count = Count}, Next, _, _) when Next >= Count ->
    Next;
write(Job = #job{log = Log, mode = Mode}, Next, Unsynced, Synced) ->
    Records = min(Job#job.records_a_call, Job#job.count - Next),
    ok = disk_log:blog_terms(Log, (Job#job.records)(Next, Records)),
    Bytes = Unsynced + Records * Job#job.record_bytes,
    case is_over(Job#job.ends) of
        true ->
            Next + Records;
        false ->
            case is_due(Mode, Bytes, Synced) of
                true ->
                    sync(Log),
                    write(Job, Next + Records, 0, clock:now());
                false ->
                    write(Job, Next + Records, Bytes, Synced)
            end
    end.

is_over(never) -> false;
is_over(Ends) -> clock:now() >= Ends.

is_due(durable, Bytes, _) -> Bytes >= ?PIECE_BYTES;
is_due({interval, Nanoseconds}, _, Synced) -> clock:now() - Synced >= Nanoseconds;
is_due(none, _, _) -> false.

%% For the laboratory: each writer is a process with a log of its own, and writes numbered records until its share or the
%% time is over. Then the logs are read again, and records that are missing or out of order are counted.
lab(#{writers := Writers, size := Size, count := Count, records_a_call := RecordsACall, sync := Sync,
      interval_ms := IntervalMs, limit_ms := LimitMs, dir := Dir}) ->
    Mode = case Sync of
        batch -> durable;
        interval -> {interval, IntervalMs * 1000000};
        none -> none
    end,
    Rest = binary:copy(<<7>>, Size - 8),
    Paths = [filename:join(Dir, "beam" ++ integer_to_list(N)) || N <- lists:seq(1, Writers)],
    {CpuMs, _} = erlang:statistics(runtime),
    Begun = clock:now(),
    Job = #job{
        records = fun(First, Records) ->
            [<<N:64/little, Rest/binary>> || N <- lists:seq(First, First + Records - 1)]
        end,
        records_a_call = RecordsACall,
        record_bytes = Size,
        mode = Mode,
        count = Count,
        ends = Begun + LimitMs * 1000000
    },
    Each = [spawn_monitor(fun() -> exit({done, write_all(Job, Path)}) end) || Path <- Paths],
    Written = [ended(Pid, Monitor) || {Pid, Monitor} <- Each],
    Seconds = clock:seconds(Begun, clock:now()),
    {CpuMsAfter, _} = erlang:statistics(runtime),
    Found = [read_back(Path, Size) || Path <- Paths],
    Total = lists:sum(Written),
    Inverted = lists:sum([I || {_, I} <- Found]),
    Read = lists:sum([R || {R, _} <- Found]),
    #{
        messages => Total,
        seconds => Seconds,
        cpu_s => (CpuMsAfter - CpuMs) / 1000,
        read => Read,
        lost => max(0, Total - Read),
        inverted => Inverted
    }.

%% The log is closed by its owner. Its process would notice the owner's end too late for the reading.
write_all(Job, Path) ->
    Log = open(Path),
    Written = write(Job#job{log = Log}),
    ok = disk_log:close(Log),
    Written.

%% How many records were read, and how many come after a later one.
read_back(Path, Size) ->
    {ok, Log} = disk_log:open([{name, Path}, {file, Path}, {mode, read_only}, {format, internal}]),
    Found = read_back(Log, Size, start, -1, {0, 0}),
    ok = disk_log:close(Log),
    ok = file:delete(Path),
    Found.

read_back(Log, Size, Continuation, Highest, Found) ->
    %% Of a log that is read only, with the number of bad bytes.
    case disk_log:bchunk(Log, Continuation) of
        eof ->
            Found;
        {Next, Records, 0} ->
            {Last, Counted} = lists:foldl(fun(Record, {High, {Read, Inverted}}) ->
                <<N:64/little, _/binary>> = Record,
                Size = byte_size(Record),
                case N > High of
                    true -> {N, {Read + 1, Inverted}};
                    false -> {High, {Read + 1, Inverted + 1}}
                end
            end, {Highest, Found}, Records),
            read_back(Log, Size, Next, Last, Counted)
    end.

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
        {'DOWN', Monitor, process, Pid, {done, Result}} -> Result
    end.

sync(Log) -> ok = disk_log:sync(Log).

%% Beside the compiled modules: on the disk of the checkout, as for every peer.
with_log(Use) ->
    Name = io_lib:format("streams-~s-~w", [os:getpid(), erlang:unique_integer([positive])]),
    Path = filename:join(filename:dirname(code:which(?MODULE)), lists:flatten(Name)),
    Log = open(Path),
    try
        Use(Log)
    after
        disk_log:close(Log),
        file:delete(Path)
    end.

open(Path) ->
    {ok, Log} = disk_log:open([{name, Path}, {file, Path}, {type, halt}, {format, internal}]),
    Log.
