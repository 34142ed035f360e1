//! A stand-in for a protocol that is not written yet.

use sip_auth::{Secrets, Subject};
use sip_lookup::{BatchAnswer, BatchFailure, Rows};

use crate::url::Url;
use crate::{Capabilities, Changed, Error, Options};

/// Refuses to be made.
pub(crate) struct Client(std::convert::Infallible);

#[allow(clippy::unused_async, reason = "the shape that all have")]
impl Client {
    pub(crate) fn new(_url: Url, _options: Options) -> Result<Self, Error> {
        Err(Error::new("no such store yet", "take another"))
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        match self.0 {}
    }

    pub(crate) async fn ask(&self, _rows: &Rows) -> Result<BatchAnswer, BatchFailure> {
        match self.0 {}
    }

    pub(crate) fn traffic(&self) -> (u64, u64) {
        match self.0 {}
    }

    pub(crate) async fn domains(&self) -> Result<Option<Vec<String>>, Error> {
        match self.0 {}
    }

    pub(crate) async fn changed(&self) -> Changed {
        match self.0 {}
    }

    pub(crate) async fn put(&self, _subject: &Subject, _secrets: &Secrets) -> Result<(), Error> {
        match self.0 {}
    }

    pub(crate) async fn remove(&self, _subject: &Subject) -> Result<bool, Error> {
        match self.0 {}
    }

    pub(crate) async fn list(
        &self,
        _after: Option<&Subject>,
        _max: usize,
    ) -> Result<Vec<Subject>, Error> {
        match self.0 {}
    }
}
