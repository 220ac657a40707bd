//! The time and the priority of a thread.

use std::time::Duration;

/// The number of a thread.
#[cfg(target_os = "linux")]
pub type ThreadId = rustix::process::Pid;
/// Threads have no known number.
#[cfg(not(target_os = "linux"))]
pub type ThreadId = std::convert::Infallible;

/// The time of this thread on a processor.
#[cfg(target_os = "linux")]
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The time since this thread asked first.
#[cfg(not(target_os = "linux"))]
pub fn thread_time() -> Duration {
    thread_local!(static BEGAN: std::time::Instant = std::time::Instant::now());
    BEGAN.with(std::time::Instant::elapsed)
}

/// The time of another thread of this process on a processor, in ticks of the system, if it is known.
pub fn time_of(thread: ThreadId) -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return {
        let id = thread.as_raw_nonzero();
        let times = std::fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?;
        let nanos: u64 = times.split(' ').next()?.parse().ok()?;
        // without statistics it is always 0
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    };
    #[cfg(not(target_os = "linux"))]
    match thread {}
}

/// The present thread, if the system tells.
pub fn this_thread() -> Option<ThreadId> {
    #[cfg(target_os = "linux")]
    return Some(rustix::thread::gettid());
    #[cfg(not(target_os = "linux"))]
    None
}

/// The `nice` value of the present thread, if it is known.
pub fn priority() -> Option<i32> {
    #[cfg(target_os = "linux")]
    let nice = rustix::process::getpriority_process(this_thread()).ok();
    #[cfg(not(target_os = "linux"))]
    let nice = Some(0);
    nice
}

/// Lowers the priority of the present thread for good, unless it is as low.
pub fn lower_this_thread(nice: i32) {
    if let Some(thread) = this_thread()
        && priority().is_none_or(|own| own < nice)
    {
        set_priority(thread, nice);
    }
}

/// Sets the `nice` value of a thread. Only a privileged process can lower the value.
pub fn set_priority(thread: ThreadId, nice: i32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(thread), nice) {
        tracing::debug!(%error, nice, "cannot set the priority of a thread");
    }
    #[cfg(not(target_os = "linux"))]
    match (thread, nice) {}
}
