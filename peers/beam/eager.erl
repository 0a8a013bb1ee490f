%% One server of `freeboard lab eager`: a page over HTTP or a TCP proxy, beside processes that only compute.
%%
%% It prints its address and serves until it is killed. Its client is that of the scene.
-module(eager).
-export([lab/1]).

%% What an actor that only computes does between two messages.
-define(PIECE_US, 200).
-define(BACKLOG, 1024).
-define(PAGE, <<"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nHello world\n">>).

%% `backend` is a port of this machine, or 0 for the page. `busy` processes compute; a request computes for `cpu_us`.
lab(#{busy := Busy, cpu_us := CpuUs, backend := Backend}) ->
    Options = [{ip, {127, 0, 0, 1}}, {backlog, ?BACKLOG}, {reuseaddr, true} | options()],
    {ok, Listener} = gen_tcp:listen(0, Options),
    {ok, Port} = inet:port(Listener),
    Serve =
        case Backend of
            0 -> fun(Socket) -> page(Socket, CpuUs, <<>>) end;
            _ -> fun(Socket) -> proxy(Socket, Backend) end
        end,
    [spawn(fun compute/0) || _ <- lists:seq(1, Busy)],
    spawn(fun() -> accept(Listener, Serve) end),
    io:format("127.0.0.1:~w~n", [Port]),
    receive
        never -> ok
    end.

options() -> [binary, {active, false}, {nodelay, true}].

%% The process that accepted a connection serves it; another one accepts the next.
accept(Listener, Serve) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    spawn(fun() -> accept(Listener, Serve) end),
    Serve(Socket).

page(Socket, CpuUs, Read) ->
    case binary:split(Read, <<"\r\n\r\n">>) of
        [Head, Rest] ->
            spin(CpuUs),
            ok = gen_tcp:send(Socket, ?PAGE),
            case is_kept(Head) of
                true -> page(Socket, CpuUs, Rest);
                false -> gen_tcp:close(Socket)
            end;
        [_] ->
            case gen_tcp:recv(Socket, 0) of
                {ok, More} -> page(Socket, CpuUs, <<Read/binary, More/binary>>);
                {error, _} -> gen_tcp:close(Socket)
            end
    end.

%% A client of HTTP/1.0 keeps its connection only if it says so.
is_kept(Head) ->
    [Line | _] = binary:split(Head, <<"\r\n">>),
    binary:match(Line, <<"HTTP/1.0">>) =:= nomatch orelse
        binary:match(Head, <<"Keep-Alive">>) =/= nomatch.

%% A process for each direction.
proxy(Client, Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, options()) of
        {ok, Server} ->
            spawn_link(fun() -> carry(Server, Client) end),
            carry(Client, Server);
        {error, _} ->
            gen_tcp:close(Client)
    end.

carry(From, To) ->
    case gen_tcp:recv(From, 0) of
        {ok, Bytes} ->
            case gen_tcp:send(To, Bytes) of
                ok -> carry(From, To);
                {error, _} -> gen_tcp:close(From)
            end;
        {error, _} ->
            gen_tcp:shutdown(To, write)
    end.

compute() ->
    spin(?PIECE_US),
    erlang:yield(),
    compute().

spin(0) -> ok;
spin(Microseconds) -> spin_until(clock:now() + Microseconds * 1000).

spin_until(Deadline) ->
    case clock:now() < Deadline of
        true -> spin_until(Deadline);
        false -> ok
    end.
