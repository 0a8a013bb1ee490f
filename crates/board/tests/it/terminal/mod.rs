//! The board in a terminal.

mod board;
mod http;
mod keys;
mod screen;
mod sheet;
mod support;
mod watch;
