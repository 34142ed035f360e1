-- Signet's own tables in MariaDB and MySQL. Names are bytes: no two that differ are taken for
-- one another, whatever the server's collation. A digest is bytes, or hexadecimal digits.
CREATE TABLE IF NOT EXISTS signet_users (
    realm VARBINARY(255) NOT NULL,
    username VARBINARY(255) NOT NULL,
    ha1_md5 VARBINARY(64),
    ha1_sha256 VARBINARY(64),
    ha1_sha512_256 VARBINARY(64),
    PRIMARY KEY (realm, username)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS signet_domains (
    domain VARBINARY(255) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
