//! What an office adds to a server: a trunk to a provider with a password, numbers that are
//! rewritten, aliases, people with rights and forwards, a limit of calls, and a hook. The
//! provider and the hook are played here.

use serde_json::{Value, json};

use crate::digest::{Account, is_proof, parameter};
use crate::hook::Hook;
use crate::phone::{Manner, Phone, Script};
use crate::target::Setup;
use crate::wire::{Text, word};

/// The realm that the trunk's password is for.
pub(crate) const REALM: &str = "provider.test";
/// How nonces begin that the provider has given out itself.
pub(crate) const OWN_NONCE: &str = "provided";
/// The headers in which a client shows who it is.
const CREDENTIALS: [&str; 2] = ["Authorization", "Proxy-Authorization"];

/// Where fred forwards all his calls, by the trunk.
pub(crate) const FREDS_FORWARD: &str = "4930777001";
/// Where nina's go that nobody takes, by the gateway.
pub(crate) const NINAS_FORWARD: &str = "1900777002";
/// A number that the hook leads to the gateway itself.
pub(crate) const HOOKED: &str = "+4966123";
/// The header that the hook's answers set.
pub(crate) const HOOKS_HEADER: &str = "X-Account";

/// The office around a server.
pub(crate) struct House {
    /// The trunk's member.
    pub(crate) provider: Phone,
    /// Somebody at the provider's address, at another port.
    pub(crate) beside: Phone,
    pub(crate) hook: Hook,
}

/// The trunk's account.
pub(crate) fn trunk_account() -> Account {
    Account::new("p4930100", "secret of the trunk")
}

/// The people of the office: `fred` forwards all, `nina` what nobody takes, `nora` may call
/// within the country, `igor` within the house, and both forward abroad all the same.
pub(crate) fn people() -> Vec<Account> {
    let names = ["fred", "nina", "nora", "igor"].map(str::to_owned);
    names
        .into_iter()
        .chain((0..LIMITED).map(limited))
        .map(|name| Account::new(&name, &format!("secret of {name}")))
        .collect()
}

/// Those who may be told to have few calls at a time.
const LIMITED: usize = 8;

/// The name of one of them.
pub(crate) fn limited(number: usize) -> String {
    format!("lena{number}")
}

impl House {
    /// Starts who plays a part in it.
    pub(crate) fn start() -> Result<Self, String> {
        let provider = Phone::at([127, 0, 3, 2])?;
        provider.manner(Manner::Scripted(asks(&provider.contact())));
        Ok(Self {
            provider,
            beside: Phone::at([127, 0, 3, 2])?,
            hook: Hook::start(answer)?,
        })
    }

    /// Writes it into a server's configuration.
    pub(crate) fn write(&self, setup: &mut Setup) {
        let account = trunk_account();
        let tables = format!(
            "[[gateway_group]]\nname = \"provider\"\ngateways = [{{ uri = \"sip:{provider}\" }}]\n\
             [[trunk]]\ngroup = \"provider\"\ndomain = \"{REALM}\"\nuser = \"4930100\"\n\
             auth_user = \"{user}\"\npassword_file = \"provider.password\"\nrealm = \"{REALM}\"\n\
             {trunk}register_s = 600\nidentity = \"pai\"\nnumber = \"+4930100\"\n\
             numbers = [{{ number = \"+4930101\", user = \"alice\" }}, {{ number = \"+4930102\", user = \"bob\" }}]\n\
             to = \"bob\"\ncountry_code = \"49\"\nnational_prefix = \"0\"\ninternational_prefix = \"00\"\n\
             format = \"e164\"\n\
             [[route]]\nprefix = \"+49\"\ntrunk = \"provider\"\n\
             [[route]]\nprefix = \"112\"\ngroup = \"outside\"\n\
             [numbers]\ncountry_code = \"49\"\nblocked = [\"+882\"]\n\
             [[rewrite]]\nmatch = \"00([1-9][0-9]*)\"\nto = \"+$1\"\n\
             [[rewrite]]\nmatch = \"0([1-9][0-9]*)\"\nto = \"+49$1\"\n\
             [hook]\nurl = \"http://{hook}/\"\nasks = [\"call\", \"message\"]\nheaders = [\"{HOOKS_HEADER}\"]\n",
            provider = self.provider.local,
            user = account.user,
            trunk = setup.trunk,
            hook = self.hook.local,
        );
        setup.tables.insert_str(0, &tables);
        setup.secrets.push(("provider.password", account.password));
        let commands = [
            "alias add sales bob",
            "alias add doctor +4930888001",
            "alias add abroad +1900888002",
            "alias add far abroad",
            "alias add +4930555100 bob",
            &format!("user set fred --forward-always +{FREDS_FORWARD}"),
            &format!("user set nina --forward-no-answer +{NINAS_FORWARD}"),
            "user set nora --permissions national --forward-always +1900889003",
            "user set igor --permissions internal --forward-always +4930889004 --forward-no-answer +1900889005",
        ];
        let cut = |command: &str| command.split(' ').map(str::to_owned).collect();
        setup.commands.extend(commands.map(cut));
    }
}

/// The hook's table. The header says who was let in, and what he says of himself.
fn answer(question: &Value) -> Value {
    let text = |name: &str| question[name].as_str().unwrap_or("");
    let headers = json!({ HOOKS_HEADER: format!("{}|{}", text("user"), text("from")) });
    let number = text("number");
    if number.starts_with("+49900") || number.starts_with("0900") {
        return json!({ "action": "reject", "status": 403, "reason": "Not at night" });
    }
    if number == HOOKED {
        return json!({ "action": "route", "to": "outside", "headers": headers });
    }
    if text("request_uri").starts_with("sip:led@") {
        return json!({ "action": "rewrite", "request_uri": "sip:+1900888006@example.test" });
    }
    json!({ "action": "continue", "headers": headers })
}

/// A provider's way: whoever shows the trunk's password is let in, everybody else is
/// challenged for its realm.
pub(crate) fn asks(contact: &str) -> Script {
    let contact = contact.to_owned();
    let once = move |request: &Text| {
        if !proofs(request).is_empty() {
            return vec![request.answer("200 OK", Some("provider"), Some(&contact))];
        }
        let (status, header) = match request.method() {
            "REGISTER" => ("401 Unauthorized", "WWW-Authenticate"),
            _ => ("407 Proxy Authentication Required", "Proxy-Authenticate"),
        };
        let challenge = challenge(REALM, &word(OWN_NONCE));
        vec![request.answer_with(status, Some("asks"), &[(header, &challenge)])]
    };
    std::sync::Arc::new(once)
}

/// A challenge for a realm.
pub(crate) fn challenge(realm: &str, nonce: &str) -> String {
    format!("Digest realm=\"{realm}\", nonce=\"{nonce}\", qop=\"auth\", algorithm=MD5")
}

/// The credentials in a request that name the trunk's account or are computed from its
/// password.
pub(crate) fn proofs(request: &Text) -> Vec<&str> {
    let account = trunk_account();
    CREDENTIALS
        .iter()
        .flat_map(|name| request.all(name))
        .filter(|value| {
            value.contains(&account.user) || is_proof(value, &account, request.method())
        })
        .collect()
}

/// What of the trunk's password somebody was shown who is not the provider.
pub(crate) fn leaked_to(phone: &Phone) -> Vec<Text> {
    phone.seen(|request| !proofs(request).is_empty())
}

/// What the provider was shown that he did not ask for himself, for his own realm.
pub(crate) fn misled(provider: &Phone) -> Vec<Text> {
    provider.seen(|request| {
        proofs(request).iter().any(|value| {
            parameter(value, "realm").as_deref() != Some(REALM)
                || !parameter(value, "nonce").is_some_and(|nonce| nonce.starts_with(OWN_NONCE))
        })
    })
}
