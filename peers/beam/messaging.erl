%% Messages between processes.
%%
%% Receivers that are flooded keep their queue off the heap, as OTP's docs advise for them: the
%% collector then leaves it alone, and many senders can append at the same time.
-module(messaging).
-export([run/2]).

-define(FLOODED, [{message_queue_data, off_heap}]).

run("fanin_2x2m", Scale) -> fan_in(2, clock:units(2000000, Scale));
run("fanin_100x10k", Scale) -> fan_in(100, clock:units(10000, Scale));
run("pingpong", Scale) -> ring(2, clock:units(2000000, Scale), "msg");
run("ring_1000", Scale) -> ring(1000, clock:units(2000000, Scale), "hop");
run("ask_deadline", _) -> {skipped, "an ask is a receive, which takes a deadline at no cost"};
run("fanin_full", _) -> {skipped, "its mailbox has no bound"};
run("waiting_" ++ _, _) -> {skipped, "nobody waits for a mailbox without a bound"};
run("ask", Scale) -> ask(clock:units(1000000, Scale));
run("spawn", Scale) -> spawn_and_end(clock:units(1000000, Scale));
run("idle_1m", Scale) -> idle(clock:units(1000000, Scale));
run("backlog_1k", Scale) -> backlog(clock:units(1000, Scale));
run("backlog_64k", Scale) -> backlog(clock:units(65536, Scale));
run("backlog_1m", Scale) -> backlog(clock:units(1000000, Scale));
run("backlog_8m", Scale) -> backlog(clock:units(8000000, Scale));
run(Work, _) -> throw({usage, "unknown work " ++ Work}).

%% Senders send 0, 1, 2, ... to one receiver.
fan_in(SendersCount, Units) ->
    Count = SendersCount * Units,
    Counter = start_counter(Count),
    Senders = [
        spawn(fun() ->
            receive
                go -> send_all(Counter, 0, Units)
            end
        end)
     || _ <- lists:seq(1, SendersCount)
    ],
    Started = clock:now(),
    [Sender ! go || Sender <- Senders],
    Ended = await(Count, SendersCount * sum_below(Units)),
    {measured, Count, clock:seconds(Started, Ended), "msg", []}.

send_all(_, Units, Units) ->
    ok;
send_all(Receiver, Value, Units) ->
    Receiver ! Value,
    send_all(Receiver, Value + 1, Units).

start_counter(Count) ->
    Main = self(),
    spawn_opt(fun() -> count(Main, Count, 0, 0) end, ?FLOODED).

count(Main, Expected, Expected, Sum) ->
    Main ! {finished, clock:now(), Expected, Sum};
count(Main, Expected, Count, Sum) ->
    receive
        Value -> count(Main, Expected, Count + 1, Sum + Value)
    end.

%% Waits for the receiver and checks what it has seen.
await(Count, Sum) ->
    receive
        {finished, Ended, Count, Sum} -> Ended;
        {finished, _, OtherCount, OtherSum} -> error({wrong_result, OtherCount, OtherSum})
    end.

sum_below(Units) -> Units * (Units - 1) div 2.

%% A token goes round until its hops are used up; a ring of two is ping-pong.
ring(NodesCount, Hops, Unit) ->
    Main = self(),
    First = spawn(fun() ->
        receive
            {link, Next} -> node_loop(Main, Next, Hops)
        end
    end),
    Last = lists:foldl(
        fun(_, Next) -> spawn(fun() -> node_loop(Main, Next, Hops) end) end,
        First,
        lists:seq(2, NodesCount)
    ),
    First ! {link, Last},
    Started = clock:now(),
    First ! Hops,
    Ended = await(Hops, 0),
    {measured, Hops, clock:seconds(Started, Ended), Unit, []}.

node_loop(Main, Next, Hops) ->
    receive
        1 ->
            Main ! {finished, clock:now(), Hops, 0};
        HopsLeft ->
            Next ! HopsLeft - 1,
            node_loop(Main, Next, Hops)
    end.

ask(Count) ->
    Main = self(),
    Server = spawn(fun serve/0),
    spawn(fun() ->
        Started = clock:now(),
        Sum = ask_all(Server, 0, Count, 0),
        Main ! {asked, Started},
        Main ! {finished, clock:now(), Count, Sum}
    end),
    Started =
        receive
            {asked, At} -> At
        end,
    Ended = await(Count, sum_below(Count) + Count),
    {measured, Count, clock:seconds(Started, Ended), "ask", []}.

serve() ->
    receive
        {From, Reference, Value} ->
            From ! {Reference, Value + 1},
            serve()
    end.

%% The reference is fresh, so the receive scans only messages that arrived after its creation.
ask_all(_, Count, Count, Sum) ->
    Sum;
ask_all(Server, Value, Count, Sum) ->
    Reference = make_ref(),
    Server ! {self(), Reference, Value},
    receive
        {Reference, Reply} -> ask_all(Server, Value + 1, Count, Sum + Reply)
    end.

%% Each process runs one step and ends; the last one to do so reports.
spawn_and_end(Count) ->
    Main = self(),
    Ended = atomics:new(1, []),
    Step = fun() ->
        case atomics:add_get(Ended, 1, 1) of
            Count -> Main ! {finished, clock:now(), Count, 0};
            _ -> ok
        end
    end,
    Started = clock:now(),
    spawn_many(Step, Count),
    Finished = await(Count, 0),
    {measured, Count, clock:seconds(Started, Finished), "actor", []}.

spawn_many(_, 0) ->
    ok;
spawn_many(Step, Count) ->
    spawn(Step),
    spawn_many(Step, Count - 1).

idle(Count) ->
    Before = resident_bytes(),
    Started = clock:now(),
    Idle = fun() ->
        receive
            stop -> ok
        end
    end,
    Processes = [spawn(Idle) || _ <- lists:seq(1, Count)],
    Ended = clock:now(),
    %% All have run once when each has taken its place in a receive.
    lists:foreach(fun await_waiting/1, Processes),
    BytesEach = (resident_bytes() - Before) / Count,
    true = erlang:system_info(process_count) > Count,
    {measured, Count, clock:seconds(Started, Ended), "actor", [{"bytes_per_actor", BytesEach}]}.

await_waiting(Process) ->
    case process_info(Process, status) of
        {status, waiting} ->
            ok;
        {status, _} ->
            erlang:yield(),
            await_waiting(Process)
    end.

resident_bytes() ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {match, [Kibibytes]} = re:run(Text, "VmRSS:\\s*(\\d+) kB", [{capture, all_but_first, list}]),
    list_to_integer(Kibibytes) * 1024.

%% The receiver is suspended while it is filled, so that nothing scans its queue meanwhile.
backlog(Count) ->
    Counter = start_counter(Count),
    true = erlang:suspend_process(Counter),
    Filling = clock:now(),
    send_all(Counter, 0, Count),
    Released = clock:now(),
    true = erlang:resume_process(Counter),
    Ended = await(Count, sum_below(Count)),
    Fields = [{"fill_seconds", clock:seconds(Filling, Released)}],
    {measured, Count, clock:seconds(Released, Ended), "msg", Fields}.
