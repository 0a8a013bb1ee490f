//! Tests that measure memory, open files and threads of the whole process: they need a process of their own, and run
//! one at a time.
#![cfg(target_os = "linux")]

#[path = "../it/common/mod.rs"]
mod common;
mod crowds;
mod end;
