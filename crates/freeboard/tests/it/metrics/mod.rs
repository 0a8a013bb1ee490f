//! Everything that Freeboard counts: its names, its text, its page in the manual and its dashboard.

mod catalogue;
mod dashboard;
mod naming;
mod page;
mod panels;
mod query;
mod text;
