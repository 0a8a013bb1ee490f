%% Two nodes: calls, casts, and more casts than the receiver can handle. `peers-remote` starts both, and measures them.
%%
%%   erl -name ROLE@127.0.0.1 -s remote main -extra ROLE WORK RECEIVER BYTES OUTSTANDING TIME_MS WORK_NS BATCH TICK_MS
%%
%% Each takes commands from its standard input, a line each, answers in JSON, and exits when it is closed. The receiver is
%% a gen_server; its mailbox has no bound. Under overload it is bound to one scheduler, as every peer's service has a core
%% of its own. Unbound, it was seen to take turns with the connection, which then read as slowly as messages were handled.
-module(remote).
-behaviour(gen_server).
-export([main/0, init/1, handle_call/3, handle_cast/2]).

-define(NAME, counter).
-define(WARM_UP_CALLS, 200).
%% Messages between two readings of the clock.
-define(MESSAGES_PER_TURN, 64).
%% The receiver's counts.
-define(HANDLED, 1).
-define(IS_SLOW, 2).
-define(SERVER_SCHEDULER, 2).

main() ->
    try
        [Role, Work, Receiver | Sizes] = init:get_plain_arguments(),
        run(Role, Work, Receiver, [list_to_integer(Size) || Size <- Sizes]),
        halt(0)
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "~p: ~p~n~p~n", [Class, Reason, Stack]),
            halt(1)
    end.

run("receiver", Work, _, [_, _, _, WorkNs, _, _]) ->
    Counts = atomics:new(?IS_SLOW, []),
    Options =
        case Work of
            "remote_overload" ->
                atomics:put(Counts, ?IS_SLOW, 1),
                [{spawn_opt, [{scheduler, ?SERVER_SCHEDULER}]}];
            _ ->
                []
        end,
    {ok, _} = gen_server:start({local, ?NAME}, ?MODULE, {Counts, WorkNs}, Options),
    io:format("{\"ready\":\"~s\"}~n", [node()]),
    commands(fun
        ("report") -> io:format("{\"handled\":~w}~n", [atomics:get(Counts, ?HANDLED)]);
        ("drain") -> atomics:put(Counts, ?IS_SLOW, 0)
    end);
run("sender", Work, Receiver, [Bytes, Outstanding, TimeMs, _, Batch, TickMs]) ->
    Node = list_to_atom(Receiver),
    true = net_kernel:connect_node(Node),
    Server = rpc:call(Node, erlang, whereis, [?NAME]),
    [N = call(Server, N, Bytes) || N <- lists:seq(1, ?WARM_UP_CALLS)],
    io:format("{\"ready\":true}~n"),
    "go\n" = io:get_line(""),
    Until = clock:now() + TimeMs * 1000000,
    case Work of
        "remote_ask_" ++ _ ->
            ask(Server, Outstanding, Bytes, Until);
        "remote_tell" ->
            report(tell(Server, 0, Bytes, Until));
        "remote_overload" ->
            Offered = offer(Server, 0, Bytes, Batch, TickMs * 1000000, clock:now(), Until),
            report(Offered),
            commands(fun("report") -> report(Offered) end)
    end,
    commands(fun(_) -> ok end).

%% Until the input is closed.
commands(Run) ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            Run(string:trim(Line)),
            commands(Run)
    end.

%% A cast is always accepted.
report(Offered) ->
    io:format("{\"offered\":~w,\"accepted\":~w,\"refused\":0}~n", [Offered, Offered]).

message(N, Bytes) -> <<N:64/little, 0:(Bytes - 8)/unit:8>>.

call(Server, N, Bytes) -> gen_server:call(Server, message(N, Bytes), infinity).

ask(Server, Outstanding, Bytes, Until) ->
    Begun = clock:now(),
    Clients = [
        spawn_monitor(fun() -> exit({done, client(Server, N, Outstanding, Bytes, Until, [])}) end)
     || N <- lists:seq(1, Outstanding)
    ],
    Latencies = lists:append([
        receive
            {'DOWN', Monitor, process, Client, {done, Times}} -> Times
        end
     || {Client, Monitor} <- Clients
    ]),
    Seconds = clock:seconds(Begun, clock:now()),
    Sorted = list_to_tuple(lists:sort(Latencies)),
    Us = fun(Quantile) -> element(ceil(Quantile * tuple_size(Sorted)), Sorted) / 1000 end,
    io:format(
        "{\"asked\":~w,\"seconds\":~.9f,\"p50_us\":~.3f,\"p99_us\":~.3f}~n",
        [tuple_size(Sorted), Seconds, Us(0.5), Us(0.99)]
    ).

client(Server, N, Step, Bytes, Until, Latencies) ->
    Sent = clock:now(),
    case Sent < Until of
        false -> Latencies;
        true ->
            N = call(Server, N, Bytes),
            client(Server, N + Step, Step, Bytes, Until, [clock:now() - Sent | Latencies])
    end.

tell(Server, N, Bytes, Until) ->
    case N rem ?MESSAGES_PER_TURN =:= 0 andalso clock:now() >= Until of
        true -> N;
        false ->
            gen_server:cast(Server, message(N + 1, Bytes)),
            tell(Server, N + 1, Bytes, Until)
    end.

%% An open loop: a late batch does not change the times of the next ones.
offer(Server, N, Bytes, Batch, Tick, Next, Until) ->
    Now = clock:now(),
    if
        Now >= Until -> N;
        Now < Next ->
            receive after (Next - Now) div 1000000 + 1 -> ok end,
            offer(Server, N, Bytes, Batch, Tick, Next, Until);
        true ->
            [gen_server:cast(Server, message(M, Bytes)) || M <- lists:seq(N + 1, N + Batch)],
            offer(Server, N + Batch, Bytes, Batch, Tick, Next + Tick, Until)
    end.

init(State) -> {ok, State}.

handle_call(Message, _From, State) -> {reply, handle(Message, State), State}.

handle_cast(Message, State) ->
    handle(Message, State),
    {noreply, State}.

%% The reply is the message's number.
handle(<<N:64/little, _/binary>>, {Counts, WorkNs}) ->
    case atomics:get(Counts, ?IS_SLOW) of
        0 -> ok;
        1 -> work_until(clock:now() + WorkNs)
    end,
    atomics:add(Counts, ?HANDLED, 1),
    N.

work_until(End) ->
    case clock:now() < End of
        true -> work_until(End);
        false -> ok
    end.
