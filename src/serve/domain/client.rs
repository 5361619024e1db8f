//! Who sends a request. The token identifies a client, or else its address; nothing that a client claims about itself counts.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The owner of everything that was made without a named token.
pub(crate) const DEFAULT_OWNER: &str = "default";

/// A client of the service.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The name of its token. A service without tokens has none, and there everyone sees everything.
    pub token_name: Option<String>,
    /// The hash of its token, to notice when that is revoked.
    pub token_hash: Option<[u8; 32]>,
    /// Its address, as [`network_of`] gives it.
    pub address: IpAddr,
}

impl Client {
    /// The owner of what this client makes.
    pub(crate) fn owner(&self) -> &str {
        self.token_name.as_deref().unwrap_or(DEFAULT_OWNER)
    }

    /// The only owner whose things this client sees; none if it sees everyone's.
    pub(crate) fn sees_only(&self) -> Option<&str> {
        self.token_name.as_deref()
    }

    /// The name under which turns in the queue and limits count this client.
    pub(crate) fn queue_name(&self) -> String {
        match &self.token_name {
            Some(name) => format!("token {name}"),
            None => format!("address {}", self.address),
        }
    }
}

/// An address as limits count it. One machine can have all addresses of an IPv6 network, so the network counts as one.
pub(crate) fn network_of(address: SocketAddr) -> IpAddr {
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
        let counted = |text: &str| network_of(format!("{text}:80").parse().unwrap()).to_string();
        assert_eq!(counted("192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("[::ffff:192.0.2.7]"), "192.0.2.7");
        assert_eq!(counted("[2001:db8:1:2:3:4:5:6]"), counted("[2001:db8:1:2:ffff::1]"));
        assert_ne!(counted("[2001:db8:1:2::1]"), counted("[2001:db8:1:3::1]"));
        assert_eq!(counted("[::1]"), "::1");
    }
}
