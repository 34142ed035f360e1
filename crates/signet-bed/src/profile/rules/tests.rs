use super::*;

fn component(system: &str, thread: &str, image: &str, symbol: &str) -> Component {
    Rules::from_text("rules", RULES_TEXT)
        .unwrap()
        .component(&Origin {
            system,
            thread,
            image,
            symbol,
        })
}

fn error(text: &str) -> String {
    Rules::from_text("my.toml", text).unwrap_err().to_string()
}

#[test]
fn signet_by_symbol_and_thread() {
    use Component::*;
    let cases = [
        ("worker-0", "aws_lc_0_47_0_RSA_sign_raw", PublicKey),
        ("handshake-0", "__bn_sqrx8x_internal", PublicKey),
        ("handshake-1", "Lp256_montjscalarmul_mainloop", PublicKey),
        ("handshake-1", "mlkem768_enc_derand", PublicKey),
        (
            "worker-0",
            "aws_lc_0_47_0_aes_gcm_encrypt_avx512",
            Symmetric,
        ),
        ("worker-0", "_aesni_ctr32_ghash_6x", Symmetric),
        (
            "worker-1",
            "aws_lc_0_47_0_sha256_block_data_order_hw",
            Symmetric,
        ),
        ("worker-1", "md5::compress::compress_block", Symmetric),
        (
            "worker-1",
            "_rjem_je_arena_cache_bin_fill_small",
            MemoryAllocation,
        ),
        ("worker-1", "_rjem_malloc", MemoryAllocation),
        (
            "worker-1",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            MemoryAllocation,
        ),
        (
            "jemalloc_bg_thd",
            "background_thread_entry",
            MemoryAllocation,
        ),
        (
            "worker-1",
            "rustls::conn::ConnectionCommon<Data>::process_new_packets",
            TlsProtocol,
        ),
        ("worker-1", "sip_tls::session::Session::read", TlsProtocol),
        (
            "worker-1",
            "<rustls::crypto::aws_lc_rs::tls13::GcmMessageEncrypter as rustls::crypto::cipher::MessageEncrypter>::encrypt",
            TlsProtocol,
        ),
        (
            "handshake-0",
            "core::slice::sort::stable::drift::sort",
            TlsProtocol,
        ),
        (
            "worker-0",
            "core::slice::sort::stable::drift::sort",
            SipCore,
        ),
        ("worker-0", "sip_engine::shard::Shard::handle", SipCore),
        (
            "worker-0",
            "<sip_net::net::Net as core::fmt::Debug>::fmt",
            SipCore,
        ),
        ("store-read", "sqlite3VdbeExec", Database),
        ("store-write", "computeCellSomething", Database),
        (
            "store-read",
            "rusqlite::statement::Statement::query",
            DatabaseClient,
        ),
        (
            "lookups",
            "tokio::runtime::scheduler::current_thread::Context::run_task",
            DatabaseClient,
        ),
        ("lookups", "_RNvMNtCs_4core3str4trim", DatabaseClient),
        ("worker-0", "sip_lookup::cache::Cache::get", DatabaseClient),
        (
            "dns",
            "hickory_proto::op::message::Message::from_vec",
            Other,
        ),
        ("dns", "core::str::from_utf8", Other),
        (
            "signet",
            "hyper::proto::h1::io::Buffered<T,B>::poll_read_from_io",
            Other,
        ),
        ("worker-0", "memcpy", Libc),
    ];
    for (thread, symbol, expected) in cases {
        let found = component("signet", thread, "signet", symbol);
        assert_eq!(found, expected, "{thread} {symbol}");
    }
}

#[test]
fn the_kernel_and_the_c_library_are_the_same_for_all() {
    for system in ["signet", "kamailio", "mariadbd", "something"] {
        let of = |image, symbol| component(system, "t", image, symbol);
        assert_eq!(of("[kernel.kallsyms]", "tcp_sendmsg"), Component::Kernel);
        assert_eq!(of("[kernel nf_tables]", "nft_do_chain"), Component::Kernel);
        assert_eq!(of("[vdso]", "clock_gettime"), Component::Kernel);
        assert_eq!(of("libc.so.6", "_int_malloc"), Component::MemoryAllocation);
        assert_eq!(of("libc.so.6", "__vfprintf_internal"), Component::Libc);
        assert_eq!(of("libc.so.6", "[unknown]"), Component::Libc);
        assert_eq!(of("libssl.so.3", "SSL_read"), Component::TlsProtocol);
    }
}

#[test]
fn kamailio_by_image_and_the_nearest_exported_name() {
    use Component::*;
    let cases = [
        ("kamailio", "parse_msg", SipCore),
        ("kamailio", "[unknown]", SipCore),
        ("kamailio", "tlsf_malloc", MemoryAllocation),
        ("kamailio", "~tlsf_free", MemoryAllocation),
        ("kamailio", "qm_malloc", MemoryAllocation),
        ("kamailio", "MD5Transform", Symmetric),
        ("tm.so", "t_newtran", SipCore),
        ("tls.so", "tls_read_f", TlsProtocol),
        ("auth_db.so", "auth_check", DatabaseClient),
        ("db_mysql.so", "db_mysql_query", DatabaseClient),
        ("libmariadb.so.3", "mysql_real_query", DatabaseClient),
        ("libcrypto.so.3", "~BN_mod_exp_mont", PublicKey),
        ("libcrypto.so.3", "~EC_POINT_mul", PublicKey),
        ("libcrypto.so.3", "RSA_private_encrypt", PublicKey),
        ("libcrypto.so.3", "~DSO_global_lookup", PublicKey),
        ("libcrypto.so.3", "~BIO_sock_should_retry", PublicKey),
        ("libcrypto.so.3", "~X509_get0_reject_objects", Symmetric),
        ("libcrypto.so.3", "~AES_encrypt", Symmetric),
        ("libcrypto.so.3", "~SHA256_Update", Symmetric),
        ("libcrypto.so.3", "[unknown]", Symmetric),
        ("libcrypto.so.3", "CRYPTO_zalloc", MemoryAllocation),
        ("libcrypto.so.3", "~X509_verify_cert", TlsProtocol),
        ("libcrypto.so.3", "d2i_X509", TlsProtocol),
        ("libcrypto.so.3", "~d2i_ECPrivateKey", PublicKey),
    ];
    for (image, symbol, expected) in cases {
        let found = component("kamailio", "kamailio", image, symbol);
        assert_eq!(found, expected, "{image} {symbol}");
    }
}

#[test]
fn a_database_is_a_database_and_what_nobody_knows_is_other() {
    let found = component("mariadbd", "one_connection", "mariadbd", "row_search_mvcc");
    assert_eq!(found, Component::Database);
    assert_eq!(component("x", "y", "z", "f"), Component::Other);
}

#[test]
fn threads_say_what_they_hold() {
    let rules = Rules::default();
    let account = rules.account("signet", "handshake-3");
    assert_eq!(account.component, Component::PublicKey);
    let account = rules.account("signet", "store-tickets");
    assert_eq!(account.component, Component::DatabaseClient);
    let account = rules.account("signet", "worker-0");
    assert_eq!(account.component, Component::SipCore);
    assert!(account.holds.contains(&Component::TlsProtocol));
    assert_eq!(rules.account("x", "y").component, Component::Other);
}

#[test]
fn the_first_rule_that_matches_counts() {
    let rules = Rules::from_text(
        "r",
        "[[rule]]\ncomponent = \"libc\"\nsymbol = \"mem*\"\nimage = [\"a\", \"b\"]\n\
         [[rule]]\ncomponent = \"kernel\"\nsymbol = \"*\"\n",
    )
    .unwrap();
    let of = |image, symbol| {
        rules.component(&Origin {
            system: "s",
            thread: "t",
            image,
            symbol,
        })
    };
    assert_eq!(of("a", "memcpy"), Component::Libc);
    assert_eq!(of("c", "memcpy"), Component::Kernel);
}

#[test]
fn a_misspelt_key_is_told_with_its_line() {
    let text = "[[rule]]\ncomponent = \"libc\"\nsymbols = \"mem*\"\n";
    assert!(
        error(text).starts_with("my.toml:3:1: unknown field `symbols`"),
        "{}",
        error(text)
    );
    let text = "[[rule]]\ncomponent = \"libc\"\nsymbol = \"a\"\n\n[[accounts]]\nthread = \"x\"\n";
    assert!(
        error(text).starts_with("my.toml:5:3: unknown field `accounts`"),
        "{}",
        error(text)
    );
}

#[test]
fn other_faults_have_a_line_too() {
    let cases = [
        (
            "[[rule]]\ncomponent = \"lib\"\nsymbol = \"a\"\n",
            "my.toml:2:13: unknown variant `lib`",
        ),
        (
            "[[rule]]\nsymbol = \"a\"\n",
            "my.toml:1:1: missing field `component`",
        ),
        (
            "[[rule]]\ncomponent = \"libc\"\n",
            "my.toml:1:1: this rule has no condition",
        ),
        (
            "\n[[account]]\ncomponent = \"libc\"\n",
            "my.toml:2:1: this rule has no condition",
        ),
        (
            "[[rule]]\ncomponent = \"libc\"\nsymbol = [\"a\", \"\"]\n",
            "my.toml:1:1: an empty pattern",
        ),
        (
            "[[rule]]\ncomponent = \"libc\"\nsymbol = 5\n",
            "my.toml:3:10: expected a pattern",
        ),
        ("[[rule\n", "my.toml:1:7: "),
    ];
    for (text, expected) in cases {
        assert!(
            error(text).starts_with(expected),
            "{expected}\n{}",
            error(text)
        );
    }
}

#[test]
fn a_file_that_is_not_there_says_how_to_begin() {
    let error = Rules::from_file(Path::new("/nowhere/rules.toml")).unwrap_err();
    assert!(error.to_string().contains("--rules"), "{error}");
}
