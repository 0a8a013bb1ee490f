%% 100 senders flood a log server, straight or through a dam.
%%
%% `seconds` runs from the first send until the last line is flushed, senders and server together.
%% The drain rates come from a second pass in which the server is held until all is queued: deep is
%% the rate while more than 90 % of the flood is queued, shallow while less than 1 % is.
-module(flood).
-export([run/2, lab/1]).

-define(SENDERS, 100).
-define(LINES_EACH, 10000).
%% A scan would take hours to the end: this much of it tells the rate.
-define(SCAN_MILLISECONDS, 5000).
-define(SCAN_SHALLOW_LINES, 10000).
-define(DAM_RULE, {10000, 100}).

run("flood_direct_raw", Scale) -> direct(raw, clock:units(?LINES_EACH, Scale));
run("flood_direct_buffered", Scale) -> direct(buffered, clock:units(?LINES_EACH, Scale));
run("flood_direct_scan", Scale) -> scan(clock:units(?LINES_EACH, Scale));
run("flood_dam_poll", Scale) -> dam(clock:units(?LINES_EACH, Scale));
run("flood_dam_credit", _) -> {skipped, "the original's dam polls"};
run(Work, _) -> throw({usage, "unknown work " ++ Work}).

direct(Mode, LinesEach) ->
    Count = ?SENDERS * LinesEach,
    Seconds = with_file(fun(Path) ->
        {Server, _} = log_server:start(Path, Mode, Count),
        Started = clock:now(),
        start_senders(Server, ?SENDERS, LinesEach),
        {Count, Ended, _} = await(Server, Path),
        clock:seconds(Started, Ended)
    end),
    {Deep, Shallow} = with_file(fun(Path) -> drain_rates(Path, Mode, LinesEach) end),
    Fields = [{"drain_rate_deep", Deep}, {"drain_rate_shallow", Shallow}],
    {measured, Count, Seconds, "msg", Fields}.

drain_rates(Path, Mode, LinesEach) ->
    Count = ?SENDERS * LinesEach,
    {Server, _} = log_server:start(Path, Mode, Count),
    fill_while_held(Server, ?SENDERS, LinesEach),
    Released = clock:now(),
    true = erlang:resume_process(Server),
    {Count, Ended, #{tenth := Tenth, last_hundredth := LastHundredth}} = await(Server, Path),
    Deep = (Count div 10) / clock:seconds(Released, Tenth),
    Shallow = (Count div 100) / clock:seconds(LastHundredth, Ended),
    {Deep, Shallow}.

scan(LinesEach) ->
    {Written, Seconds} = with_file(fun(Path) -> scan_for_a_while(Path, LinesEach) end),
    {ShallowWritten, ShallowSeconds} = with_file(fun(Path) ->
        scan_for_a_while(Path, ?SCAN_SHALLOW_LINES div ?SENDERS)
    end),
    Fields = [
        {"drain_rate_deep", Written / Seconds},
        {"drain_rate_shallow", ShallowWritten / ShallowSeconds}
    ],
    {measured, Written, Seconds, "msg", Fields}.

scan_for_a_while(Path, LinesEach) ->
    {Server, Stop} = log_server:start(Path, scan, ?SENDERS * LinesEach),
    fill_while_held(Server, ?SENDERS, LinesEach),
    {ok, _} = timer:apply_after(?SCAN_MILLISECONDS, log_server, stop, [Stop]),
    Released = clock:now(),
    true = erlang:resume_process(Server),
    {Written, Ended, _} = await(Server, Path),
    {Written, clock:seconds(Released, Ended)}.

dam(LinesEach) ->
    Count = ?SENDERS * LinesEach,
    {Threshold, _} = ?DAM_RULE,
    {Seconds, Peak} = with_file(fun(Path) ->
        {Server, _} = log_server:start(Path, buffered, Count),
        Dam = log_dam:start(Server, ?DAM_RULE, Count),
        Started = clock:now(),
        start_senders(Dam, ?SENDERS, LinesEach),
        {Count, Ended, _} = await(Server, Path),
        receive
            {log_dam_ended, Dam, Longest} -> {clock:seconds(Started, Ended), Longest}
        end
    end),
    %% One line more passes when the queue stands at the threshold.
    Fields = [{"peak_server_queue", Peak}, {"server_queue_limit", Threshold + 1}],
    {measured, Count, Seconds, "msg", Fields}.

fill_while_held(Server, Senders, LinesEach) ->
    true = erlang:suspend_process(Server),
    await_senders(start_senders(Server, Senders, LinesEach)).

await_senders(Started) ->
    [
        receive
            {'DOWN', Reference, process, _, normal} -> ok
        end
     || {_, Reference} <- Started
    ],
    ok.

start_senders(Receiver, Senders, LinesEach) ->
    [
        spawn_monitor(fun() -> send_lines(Receiver, Sender, 0, LinesEach) end)
     || Sender <- lists:seq(0, Senders - 1)
    ].

send_lines(_, _, LinesEach, LinesEach) ->
    ok;
send_lines(Receiver, Sender, Number, LinesEach) ->
    Receiver ! {log, line(Sender, Number)},
    send_lines(Receiver, Sender, Number + 1, LinesEach).

%% 31 bytes, as the other peers have them.
line(Sender, Number) ->
    <<"sender ", (padded(Sender, 3))/binary, " message ", (padded(Number, 7))/binary, " ok.\n">>.

padded(Value, Width) ->
    Digits = integer_to_binary(Value),
    Zeros = binary:part(<<"0000000">>, 0, max(0, Width - byte_size(Digits))),
    <<Zeros/binary, Digits/binary>>.

%% One run of `freeboard lab flood`: `mode` is scan or the name of a sink, `threshold` 0 is no dam, `hold` is
%% whether all lines are queued before the server begins.
lab(#{senders := Senders, messages := LinesEach, mode := Mode, hold := Hold} = Parameters) ->
    #{threshold := Threshold, wait_ms := WaitMs, limit_ms := LimitMs} = Parameters,
    Count = Senders * LinesEach,
    with_file(fun(Path) ->
        {Server, Stop} = log_server:start(Path, Mode, Count),
        Started = clock:now(),
        {CpuMs, _} = erlang:statistics(runtime),
        Dam = start_flood(Server, Senders, LinesEach, Hold, Threshold, WaitMs),
        {ok, _} = timer:apply_after(LimitMs, log_server, stop, [Stop]),
        First = {clock:seconds(Started, clock:now()), queued(Dam), queued(Server)},
        Released = clock:now(),
        Hold andalso erlang:resume_process(Server),
        Samples = [First | watch(Server, Dam, Started)],
        {Written, Ended, Marks} = await(Server, Path),
        {CpuMsAfter, _} = erlang:statistics(runtime),
        #{
            cpu_s => (CpuMsAfter - CpuMs) / 1000,
            written => Written,
            seconds => clock:seconds(Started, Ended),
            drain_rate_deep => deep(Hold, Count, Written, Released, Ended, Marks),
            drain_rate_shallow => shallow(Hold, Count, Ended, Marks),
            samples => [#{seconds => S, dam => D, server => L} || {S, D, L} <- Samples],
            rss_peak_bytes => peak_memory()
        }
    end).

start_flood(Server, Senders, LinesEach, Hold, Threshold, WaitMs) ->
    Hold andalso erlang:suspend_process(Server),
    Dam =
        case Threshold of
            0 -> none;
            _ -> log_dam:start(Server, {Threshold, WaitMs}, Senders * LinesEach)
        end,
    Receiver =
        case Dam of
            none -> Server;
            _ -> Dam
        end,
    Started = start_senders(Receiver, Senders, LinesEach),
    Hold andalso await_senders(Started),
    Dam.

%% Both queues' lengths ten times a second, until the server has ended.
watch(Server, Dam, Started) ->
    Monitor = monitor(process, Server),
    watch(Server, Dam, Started, Monitor, []).

watch(Server, Dam, Started, Monitor, Samples) ->
    receive
        {'DOWN', Monitor, process, Server, _} -> lists:reverse(Samples)
    after 100 ->
        Sample = {clock:seconds(Started, clock:now()), queued(Dam), queued(Server)},
        watch(Server, Dam, Started, Monitor, [Sample | Samples])
    end.

queued(none) ->
    0;
queued(Process) ->
    case process_info(Process, message_queue_len) of
        {message_queue_len, Length} -> Length;
        undefined -> 0
    end.

deep(true, Count, Written, Released, Ended, _) when Written =< Count div 10 ->
    Written / clock:seconds(Released, Ended);
deep(true, Count, _, Released, _, #{tenth := Tenth}) ->
    (Count div 10) / clock:seconds(Released, Tenth);
deep(_, _, _, _, _, _) ->
    null.

shallow(true, Count, Ended, #{last_hundredth := LastHundredth}) ->
    (Count div 100) / clock:seconds(LastHundredth, Ended);
shallow(_, _, _, _) ->
    null.

%% Of the whole emulator, where the system tells it.
peak_memory() ->
    case file:read_file("/proc/self/status") of
        {ok, Text} ->
            case re:run(Text, "VmHWM:\\s+(\\d+) kB", [{capture, all_but_first, list}]) of
                {match, [Kibibytes]} -> list_to_integer(Kibibytes) * 1024;
                nomatch -> null
            end;
        {error, _} ->
            null
    end.

%% Waits for the server's end and checks that what it wrote is in the file.
await(Server, Path) ->
    receive
        {log_server_ended, Server, Written, Ended, Marks, none} ->
            {Written, Ended, Marks};
        {log_server_ended, Server, Written, Ended, Marks, _} ->
            {ok, Text} = file:read_file(Path),
            Written = length(binary:matches(Text, <<"\n">>)),
            true = byte_size(Text) >= Written * byte_size(line(0, 0)),
            {Written, Ended, Marks}
    end.

with_file(Use) ->
    Folder = os:getenv("TMPDIR", "/tmp"),
    Name = io_lib:format("freeboard-flood-~s-~w", [os:getpid(), erlang:unique_integer([positive])]),
    Path = filename:join(Folder, Name),
    try
        Use(Path)
    after
        file:delete(Path)
    end.
