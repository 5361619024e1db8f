//! Who asks: by the token, or else by the address. Nothing that a client says of itself counts.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Whoever has no named token, and what was there before tokens had names.
pub const DEFAULT_OWNER: &str = "default";

/// A client of the service, as far as it is known.
#[derive(Clone, Debug)]
pub struct Who {
    /// The name of its token; none on a service without tokens, where everyone sees everything.
    pub token: Option<String>,
    /// The hash of its token, to know when that is revoked.
    pub secret: Option<[u8; 32]>,
    /// Where it comes from.
    pub address: IpAddr,
}

impl Who {
    /// Whom what it makes belongs to.
    pub fn owner(&self) -> &str {
        self.token.as_deref().unwrap_or(DEFAULT_OWNER)
    }

    /// Whose things alone it sees; none if it sees everyone's.
    pub fn sees_only(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// For turns and limits.
    pub fn client(&self) -> String {
        match &self.token {
            Some(name) => format!("token {name}"),
            None => format!("address {}", self.address),
        }
    }
}

/// An address as limits count it: one machine can have all of an IPv6 network's addresses.
pub fn counted(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client() {
        let counted = |text: &str| counted(format!("{text}:80").parse().unwrap()).to_string();
        assert_eq!(counted("192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("[::ffff:192.0.2.7]"), "192.0.2.7");
        assert_eq!(counted("[2001:db8:1:2:3:4:5:6]"), counted("[2001:db8:1:2:ffff::1]"));
        assert_ne!(counted("[2001:db8:1:2::1]"), counted("[2001:db8:1:3::1]"));
        assert_eq!(counted("[::1]"), "::1");
    }
}
