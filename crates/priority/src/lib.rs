//! Threads with a low priority, and the use of a processor that decides who has them.
//!
//! The API server and the controllers share it. Priorities are `nice` values of Linux; elsewhere threads keep theirs.

mod background;
mod thread;
mod used_time;

pub use background::{Background, blocking};
pub use thread::{ThreadId, lower_this_thread, priority, set_priority, this_thread, thread_time, time_of};
pub use used_time::{Limit, UsedTime};
