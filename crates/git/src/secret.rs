//! The one way this crate holds a credential: readable where it is sent, masked everywhere else.
//!
//! Refuses `Debug`, `Display` and `Serialize` of the content, so that no error, log line or
//! panic can carry it. What was held is wiped when it goes; what others copied of it is not.

use std::fmt;

use zeroize::Zeroize as _;

/// A password, token or key. `Debug` shows a mask.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes of a secret.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that sends or writes them.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[masked]")
    }
}
