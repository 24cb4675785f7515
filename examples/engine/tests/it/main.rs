//! The engine as a user runs it: its commands, their output, their exit codes.

mod bad_input;
mod classify;
mod compare;
mod device;
mod pages;
mod planned;
mod program;
mod regions;
mod serve;
