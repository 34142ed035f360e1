-- Signet's own tables in PostgreSQL. A digest is kept as bytes.
CREATE TABLE IF NOT EXISTS signet_users (
    realm text COLLATE "C" NOT NULL,
    username text COLLATE "C" NOT NULL,
    ha1_md5 bytea,
    ha1_sha256 bytea,
    ha1_sha512_256 bytea,
    PRIMARY KEY (realm, username)
);

CREATE TABLE IF NOT EXISTS signet_domains (
    domain text COLLATE "C" PRIMARY KEY
);

-- Tells servers that listen which user has changed, so that they forget what they kept of
-- him. A statement that changes every row (TRUNCATE) says so with an empty message.
CREATE OR REPLACE FUNCTION signet_users_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM pg_notify('signet_users', '');
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        PERFORM pg_notify('signet_users',
            json_build_object('user', OLD.username, 'realm', OLD.realm)::text);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM pg_notify('signet_users',
            json_build_object('user', NEW.username, 'realm', NEW.realm)::text);
    END IF;
    RETURN NULL;
END
$$;

DROP TRIGGER IF EXISTS signet_users_changed ON signet_users;
CREATE TRIGGER signet_users_changed AFTER INSERT OR UPDATE OR DELETE ON signet_users
    FOR EACH ROW EXECUTE FUNCTION signet_users_changed();
DROP TRIGGER IF EXISTS signet_users_truncated ON signet_users;
CREATE TRIGGER signet_users_truncated AFTER TRUNCATE ON signet_users
    FOR EACH STATEMENT EXECUTE FUNCTION signet_users_changed();
