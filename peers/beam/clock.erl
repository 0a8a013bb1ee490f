%% Time and size of a work, as all modules here take them.
-module(clock).
-export([now/0, seconds/2, units/2]).

%% Nanoseconds of a clock that only goes forward.
now() -> erlang:monotonic_time(nanosecond).

seconds(Started, Ended) -> (Ended - Started) / 1.0e9.

%% The scaled number of units: at least two, and even, so that ping-pong ends where it began.
units(Full, Scale) -> max(2, round(Full * Scale) div 2 * 2).
