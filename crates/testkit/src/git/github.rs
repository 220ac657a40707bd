//! A fake of GitHub's API for app tokens.

use super::Error;
use super::answers::{Answers, say};

/// A running fake; dropping it stops it. It has one installation, 34, of the user `someone`.
#[derive(Debug)]
pub struct GithubApi(Answers);

impl GithubApi {
    /// Starts it; the installation gets this token.
    pub fn start(token: &str) -> Result<Self, Error> {
        let given = format!(r#"{{"token":"{token}","expires_at":"2099-01-01T00:00:00Z"}}"#);
        let answers = Answers::start(move |mut stream, request| {
            let (status, body) = match request.head.lines().next().unwrap_or_default() {
                "GET /api/v3/orgs/someone/installation HTTP/1.1" => ("404 Not Found", "{}"),
                "GET /api/v3/users/someone/installation HTTP/1.1" => ("200 OK", r#"{"id":34}"#),
                "POST /api/v3/app/installations/34/access_tokens HTTP/1.1" => ("201 Created", &*given),
                _ => ("401 Unauthorized", r#"{"message":"Integration not found"}"#),
            };
            say(&mut stream, status, body);
        });
        answers.map(Self).map_err(Error::Serve)
    }

    /// Its URL, for `githubAppBaseURL`.
    pub fn url(&self) -> String {
        format!("{}/api/v3", self.0.url())
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.0.heads()
    }
}
