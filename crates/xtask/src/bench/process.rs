//! A measured process: its resources and its end.

use super::launch;
use std::error::Error;
use std::process::{Child, Command, ExitStatus};

/// A running child; dropping it sends SIGTERM and waits.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Box<dyn Error>> {
        let child = launch(command, Command::spawn)?;
        Ok(Self { child })
    }

    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Box<dyn Error>> {
        Ok(self.child.try_wait()?)
    }

    /// Peak resident memory so far, in MiB (Linux: `VmHWM`).
    pub(crate) fn peak_memory(&self) -> Option<f64> {
        Some(self.status("VmHWM:")? / 1024.0)
    }

    /// Resident memory now, in MiB.
    pub(crate) fn memory(&self) -> Option<f64> {
        Some(self.status("VmRSS:")? / 1024.0)
    }

    pub(crate) fn threads(&self) -> Option<f64> {
        self.status("Threads:")
    }

    /// Open file descriptors.
    pub(crate) fn files(&self) -> Option<f64> {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?;
        Some(open.fold(0.0, |count, _| count + 1.0))
    }

    /// Makes the present memory the peak.
    pub(crate) fn reset_peak(&self) -> std::io::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")
    }

    fn status(&self, field: &str) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with(field))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// CPU time so far, in seconds (Linux: fields 14 and 15 of `stat`, in ticks of 10 ms).
    pub(crate) fn cpu(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let after_name = stat.rsplit_once(')')?.1;
        let mut fields = after_name.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some((user + system) / 100.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // by the id we started: SIGTERM lets it remove its files
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        if !told.is_ok_and(|status| status.success())
            && let Err(error) = self.child.kill()
        {
            eprintln!("could not end process {pid}: {error}");
        }
        if let Err(error) = self.child.wait() {
            eprintln!("could not wait for process {pid}: {error}");
        }
    }
}
