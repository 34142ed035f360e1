//! The passwords of trunks: read from their files at a start and a reload, and put into what the
//! workers are told.

use std::path::Path;
use std::sync::Arc;

use sip_auth::Password;
use sip_engine::Settings;
use sip_engine::trunk::Trunk;
use zeroize::Zeroizing;

use crate::Error;
use crate::config::Config;
use crate::data_dir::{refuse_readable_by_others, unreadable};

/// The longest password.
const BYTES_MAX: usize = 1_024;

/// Reads the password of each trunk that has one into these settings.
pub(crate) fn fit_settings(settings: &mut Settings, config: &Config) -> Result<(), Error> {
    for group in &mut settings.routes.groups {
        let written = config.trunk.iter().find(|of| *of.group == *group.name);
        let file = written.and_then(|trunk| trunk.password_file.as_deref());
        let (Some(trunk), Some(file)) = (&group.trunk, file) else {
            continue;
        };
        let password = read(&group.name, file)?;
        let mut trunk = Trunk::clone(trunk);
        if let Some(credentials) = &mut trunk.credentials {
            credentials.password = password;
        }
        group.trunk = Some(Arc::new(trunk));
    }
    Ok(())
}

/// Whether the passwords can be read.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    for trunk in &config.trunk {
        if let Some(file) = &trunk.password_file {
            read(&trunk.group, file)?;
        }
    }
    Ok(())
}

fn read(trunk: &str, file: &Path) -> Result<Password, Error> {
    let bytes = std::fs::read(file)
        .map_err(|error| unreadable("read a trunk's password from", file, &error))?;
    let bytes = Zeroizing::new(bytes);
    refuse_readable_by_others("a trunk's password in", file)?;
    let text = std::str::from_utf8(&bytes).ok();
    let text = text.map(|text| text.trim_end_matches(['\r', '\n']));
    match text.filter(|text| !text.is_empty() && text.len() <= BYTES_MAX) {
        Some(text) => Ok(Password::new(text.to_owned())),
        None => Err(Error::new(
            format!(
                "{}: this is no password: it is empty, too long, or no text",
                file.display()
            ),
            format!("write the password of the trunk {trunk} into it, and nothing else"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(file: &Path) -> Config {
        let text = format!(
            "version = 1\n[[gateway_group]]\nname = \"p\"\ngateways = [{{ uri = \"sip:192.0.2.9\" }}]\n\
             [[trunk]]\ngroup = \"p\"\nuser = \"u\"\nrealm = \"r\"\npassword_file = \"{}\"\n",
            file.display()
        );
        Config::from_text(Path::new("t.toml"), &text).unwrap()
    }

    #[test]
    fn a_password_is_read_from_a_file_of_its_owners_alone() {
        let file = std::env::temp_dir().join(format!("signet-trunk-{}", std::process::id()));
        let write = |text: &[u8], mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let config = config(&file);
        let password = || {
            let mut settings = crate::setup::settings(&config, &[], &[], &[]);
            fit_settings(&mut settings, &config).map(|()| {
                let printed = format!("{settings:?}");
                assert!(!printed.contains("swordfish"), "{printed}");
                let trunk = settings.routes.groups[0].trunk.clone().unwrap();
                trunk.credentials.clone().unwrap().password
            })
        };
        write(b"swordfish\r\n", 0o600);
        assert_eq!(password().unwrap().expose(), "swordfish");
        check(&config).unwrap();
        for (text, mode, told) in [
            (&b"swordfish\n"[..], 0o640, "chmod 600"),
            (b"\n", 0o600, "no password"),
            (b"\xff\xfe", 0o600, "no password"),
            (&[b'a'; BYTES_MAX + 1], 0o600, "no password"),
        ] {
            write(text, mode);
            let error = password().unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            assert!(!error.contains("swordfish"), "{error}");
            assert!(check(&config).is_err());
        }
        std::fs::remove_file(&file).unwrap();
        let error = password().unwrap_err().to_string();
        assert!(error.contains("read a trunk's password from"), "{error}");
    }
}
