//! An endpoint of the operator's: one POST of JSON asks for many users.

mod endpoint;
mod exchange;

use std::future::pending;

use sip_auth::{Algorithm, Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};

use crate::fault::Unanswered;
use crate::url::Url;
use crate::{Capabilities, Changed, Error, Layout, Options};

pub use endpoint::Endpoint;

/// Users in one request.
const BATCH_MAX: usize = 500;

/// The body of an answer has at most this many bytes, and so many more for each user.
const BODY_MAX: usize = 64 << 10;
const BODY_MAX_PER_USER: usize = 2 << 10;

/// An endpoint with users.
pub(crate) struct Client {
    endpoint: Endpoint,
    capabilities: Capabilities,
}

impl Client {
    pub(crate) fn new(url: &Url, options: Options) -> Result<Self, Error> {
        let endpoint = Endpoint::at(url, &options)?;
        if options.layout != Layout::Signet {
            return Err(Error::new(
                "the endpoint knows by itself how users are kept",
                "take away layout",
            ));
        }
        Ok(Self {
            capabilities: Capabilities {
                algorithms: options
                    .algorithms
                    .unwrap_or_else(|| Algorithm::ALL.to_vec()),
                verifies: false,
                tells_unknown_users: true,
                is_writable: false,
                announces_changes: false,
                batch_max: BATCH_MAX,
                in_flight_max: endpoint.in_flight_max(),
            },
            endpoint,
        })
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) async fn ask(&self, rows: &Rows) -> Result<BatchAnswer, Unanswered> {
        let Rows::Secrets(subjects) = rows else {
            let why = "an endpoint gives secrets and verifies no digests".to_owned();
            return Err(BatchFailure::Refused(why).into());
        };
        if subjects.is_empty() {
            return Ok(BatchAnswer::Rows(Vec::new()));
        }
        let body_max = BODY_MAX + BODY_MAX_PER_USER * subjects.len();
        let body = exchange::write(subjects);
        let answer = self.endpoint.try_post(body, body_max).await?;
        let rows = exchange::read(subjects, &answer);
        Ok(BatchAnswer::Rows(
            rows.map_err(|why| self.endpoint.refused(&why))?,
        ))
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.endpoint.traffic()
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        Ok(None)
    }

    pub(crate) async fn changed(&self) -> Changed {
        pending().await
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn put(&self, _subject: &Subject, _secrets: &Secrets) -> Result<(), Error> {
        Err(read_only())
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn remove(&self, _subject: &Subject) -> Result<bool, Error> {
        Err(read_only())
    }

    #[allow(clippy::unused_async, reason = "the shape that all have")]
    pub(crate) async fn list(
        &self,
        _after: Option<&Subject>,
        _max: usize,
    ) -> Result<Vec<Subject>, Error> {
        Err(read_only())
    }
}

fn read_only() -> Error {
    Error::new(
        "users are not changed or listed through the endpoint",
        "change them where it has them from",
    )
}
