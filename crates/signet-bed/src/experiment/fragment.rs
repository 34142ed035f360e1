//! A part of a setting, as a place of an axis says it.

use serde::Deserialize;

use super::case::{Authentication, Connection, Flow, Resumption, Role, Setting, Suite, Transport};

/// What is set; the rest stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fragment {
    /// [`Setting::role`].
    pub role: Option<Role>,
    /// [`Setting::flow`].
    pub flow: Option<Flow>,
    /// [`Setting::transport`].
    pub transport: Option<Transport>,
    /// [`Setting::caller_connection`].
    pub caller_connection: Option<Connection>,
    /// [`Setting::called_connection`].
    pub called_connection: Option<Connection>,
    /// [`Setting::security`].
    pub security: SecurityFragment,
    /// [`Setting::authentication`].
    pub authentication: Option<Authentication>,
    /// [`Setting::agents`].
    pub agents: AgentsFragment,
    /// [`Setting::hold_ms`].
    pub hold_ms: Option<u64>,
    /// [`Setting::database_rtt_ms`].
    pub database_rtt_ms: Option<u64>,
    /// [`Setting::workers`].
    pub workers: Option<u32>,
    /// [`Setting::server_share`].
    pub server_share: Option<f64>,
    /// The first of [`Setting::lookups`].
    pub processes: Option<u32>,
    /// The second of [`Setting::lookups`]; 1 where only processes are set.
    pub batch: Option<u32>,
}

/// A part of [`super::Security`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityFragment {
    /// Version and suite.
    pub suite: Option<Suite>,
    /// Key-exchange group.
    pub group: Option<String>,
    /// Key of the certificates.
    pub key: Option<String>,
    /// Whether new connections resume an earlier session.
    pub resumption: Option<Resumption>,
    /// Whether clients show certificates.
    pub mutual: Option<bool>,
}

/// A part of [`super::Agents`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentsFragment {
    /// Those who call or register.
    pub callers: Option<u32>,
    /// Those who are called.
    pub called: Option<u32>,
    /// Users in the store.
    pub users: Option<u32>,
}

impl Fragment {
    /// Sets what it says.
    pub fn lay_on(&self, setting: &mut Setting) {
        put(&self.role, &mut setting.role);
        put(&self.flow, &mut setting.flow);
        put(&self.transport, &mut setting.transport);
        put(&self.caller_connection, &mut setting.caller_connection);
        put(&self.called_connection, &mut setting.called_connection);
        let security = &mut setting.security;
        put(&self.security.suite, &mut security.suite);
        put_some(&self.security.group, &mut security.group);
        put_some(&self.security.key, &mut security.key);
        put(&self.security.resumption, &mut security.resumption);
        put(&self.security.mutual, &mut security.mutual);
        put(&self.authentication, &mut setting.authentication);
        put(&self.agents.callers, &mut setting.agents.callers);
        put(&self.agents.called, &mut setting.agents.called);
        put(&self.agents.users, &mut setting.agents.users);
        put(&self.hold_ms, &mut setting.hold_ms);
        put(&self.database_rtt_ms, &mut setting.database_rtt_ms);
        put_some(&self.workers, &mut setting.workers);
        put_some(&self.server_share, &mut setting.server_share);
        if self.processes.is_some() || self.batch.is_some() {
            let (processes, batch) = setting.lookups.unwrap_or((1, 1));
            setting.lookups = Some((
                self.processes.unwrap_or(processes),
                self.batch.unwrap_or(batch),
            ));
        }
    }
}

fn put<T: Clone>(from: &Option<T>, to: &mut T) {
    if let Some(value) = from {
        *to = value.clone();
    }
}

fn put_some<T: Clone>(from: &Option<T>, to: &mut Option<T>) {
    if from.is_some() {
        to.clone_from(from);
    }
}
