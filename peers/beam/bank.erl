%% Savina's BankTransaction: a teller orders transfers between accounts and counts those that are done.
%%
%% An account asks the other one and waits for its reply, as in Savina. The transfers are those of the other peers: the
%% generator of Park and Miller, 1,000 accounts, 50,000 transfers under way at once.
-module(bank).
-export([run/2]).

-define(ACCOUNTS, 1000).
-define(ROUND, 50000).
%% As in messaging.
-define(FLOODED, [{message_queue_data, off_heap}]).

run("bank_transaction", Scale) ->
    Count = clock:units(200000, Scale),
    Main = self(),
    Account = fun() -> account(0) end,
    Accounts = list_to_tuple([spawn_opt(Account, ?FLOODED) || _ <- lists:seq(1, ?ACCOUNTS)]),
    Started = clock:now(),
    spawn_opt(fun() -> teller(Main, Accounts, Count, 1, 0, 0) end, ?FLOODED),
    receive
        {finished, Ended, Sum, Sum} -> {measured, Count, clock:seconds(Started, Ended), "transfer", []};
        {finished, _, Sum, Expected} -> error({wrong_result, Sum, Expected})
    end.

account(Balance) ->
    receive
        {debit, From, Reference, Amount} ->
            From ! {Reference, Amount},
            account(Balance + Amount);
        {credit, Teller, Target, Amount} ->
            Reference = make_ref(),
            Target ! {debit, self(), Reference, Amount},
            receive
                {Reference, Debited} -> Teller ! Debited
            end,
            account(Balance - Amount)
    end.

teller(Main, _, 0, _, Sum, Expected) ->
    Main ! {finished, clock:now(), Sum, Expected};
teller(Main, Accounts, Left, State, Sum, Expected) ->
    Round = min(Left, ?ROUND),
    {Next, Ordered} = order(Accounts, Round, State, 0),
    Done = collect(Round, 0),
    teller(Main, Accounts, Left - Round, Next, Sum + Done, Expected + Ordered).

order(_, 0, State, Sum) ->
    {State, Sum};
order(Accounts, Left, State0, Sum) ->
    State1 = next(State0),
    Source = State1 rem (?ACCOUNTS div 10 * 8),
    State2 = next(State1),
    Target = Source + max(1, State2 rem (?ACCOUNTS - Source)),
    State3 = next(State2),
    Amount = State3 rem 1000,
    element(Source + 1, Accounts) ! {credit, self(), element(Target + 1, Accounts), Amount},
    order(Accounts, Left - 1, State3, Sum + Amount).

next(State) -> State * 48271 rem 16#7fffffff.

collect(0, Sum) ->
    Sum;
collect(Left, Sum) ->
    receive
        Amount -> collect(Left - 1, Sum + Amount)
    end.
