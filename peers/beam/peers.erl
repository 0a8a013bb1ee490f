%% The same work on the BEAM: prints one JSON line, as every peer does.
%%
%%   erl -noshell -noinput +S 2:2 +P 4194304 -pa DIR -s peers main -extra WORK [--scale F]
%%
%% messaging does the messages between processes, flood the log server, balance the long native
%% calls, blocking those that keep a scheduler asleep, streams the records to disk, goodput the service that is
%% asked for too much, watching what it costs to be watched, bank Savina's BankTransaction. Each checks its own result; a wrong one ends with a message and a
%% non-zero exit.
-module(peers).
-export([main/0]).

main() ->
    try
        {Work, Scale} = arguments(init:get_plain_arguments()),
        io:put_chars(line(Work, run(Work, Scale))),
        halt(0)
    catch
        throw:{usage, Reason} ->
            io:format(standard_error, "~ts~n", [Reason]),
            halt(2);
        Class:Reason:Stack ->
            io:format(standard_error, "~p: ~p~n~p~n", [Class, Reason, Stack]),
            halt(1)
    end.

arguments([Work]) -> {Work, 1.0};
arguments([Work, "--scale", Scale]) -> {Work, number(Scale)};
arguments(_) -> throw({usage, "usage: WORK [--scale F]"}).

number(Text) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{Value, ""}, _} when Value > 0 -> Value;
        {_, {Value, ""}} when is_integer(Value), Value > 0 -> float(Value);
        _ -> throw({usage, "the scale is a number above 0"})
    end.

run("flood_" ++ _ = Work, Scale) -> flood:run(Work, Scale);
run("balance_" ++ _ = Work, Scale) -> balance:run(Work, Scale);
run("blocking" ++ _ = Work, Scale) -> blocking:run(Work, Scale);
run("stream_" ++ _ = Work, Scale) -> streams:run(Work, Scale);
run("goodput_" ++ _ = Work, Scale) -> goodput:run(Work, Scale);
run("board_" ++ _ = Work, Scale) -> watching:run(Work, Scale);
run("bank_" ++ _ = Work, Scale) -> bank:run(Work, Scale);
run(Work, Scale) -> messaging:run(Work, Scale).

line(Work, {skipped, Reason}) ->
    io_lib:format("{\"peer\":\"beam\",\"work\":\"~ts\",\"skipped\":\"~ts\"}~n", [Work, Reason]);
line(Work, {measured, Count, Seconds, Unit, Fields}) ->
    Further = [io_lib:format(",\"~ts\":~ts", [Name, json(Value)]) || {Name, Value} <- Fields],
    io_lib:format(
        "{\"peer\":\"beam\",\"work\":\"~ts\",\"count\":~w,\"seconds\":~ts,\"unit\":\"~ts\"~ts}~n",
        [Work, Count, json(Seconds), Unit, Further]
    ).

json(Value) when is_integer(Value) -> integer_to_list(Value);
json(Value) -> io_lib:format("~.9f", [Value]).
