%% The same work on the BEAM for a scene of the laboratory: prints one JSON object. A server prints its address instead.
%%
%%   erl -noshell -noinput +S 2:2 -pa DIR -s lab main -extra SCENE KEY=VALUE ...
%%
%% A wrong result ends with a message and a non-zero exit.
-module(lab).
-export([main/0]).

main() ->
    try
        [Scene | Parameters] = init:get_plain_arguments(),
        Map = maps:from_list([parameter(P) || P <- Parameters]),
        io:put_chars([json(run(Scene, Map)), $\n]),
        halt(0)
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "~p: ~p~n~p~n", [Class, Reason, Stack]),
            halt(1)
    end.

run("balance", Parameters) -> balance:lab(Parameters);
run("eager", Parameters) -> eager:lab(Parameters);
run("flood", Parameters) -> flood:lab(Parameters);
run("streams", Parameters) -> streams:lab(Parameters).

%% Digits are a number, all else is an atom.
parameter(Text) ->
    [Key, Value] = string:split(Text, "="),
    {list_to_atom(Key), value(string:to_integer(Value), Value)}.

value({Number, ""}, _) -> Number;
value(_, Text) -> list_to_atom(Text).

json(Value) when is_integer(Value) -> integer_to_list(Value);
json(Value) when is_float(Value) -> io_lib:format("~.9f", [Value]);
json(null) -> "null";
json(Value) when is_boolean(Value) -> atom_to_list(Value);
json(Value) when is_atom(Value) -> [$", atom_to_list(Value), $"];
json(Values) when is_list(Values) -> [$[, lists:join($,, [json(V) || V <- Values]), $]];
json(Map) when is_map(Map) ->
    Pairs = [[$", atom_to_list(Key), "\":", json(Value)] || {Key, Value} <- maps:to_list(Map)],
    [${, lists:join($,, Pairs), $}].
