//! Addresses on loopback that no other run on this machine uses.
//!
//! In: nothing. Out: a block of two /16 networks inside 127/8, one for Services (API server included) and one for
//! Pods. What stays true: a block belongs to one run at a time, machine-wide, and to nobody once that run is over.
//! A bound socket is the claim, so the kernel settles races and cleans up; and since all of the block's addresses are
//! the run's own, its ports need no search for free ones.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::{Context, Result};

/// The second octets that blocks are made of: 127.64/16 to 127.127/16, away from 127.0.0.1 and from 127.0.1.1 and
/// 127.0.0.53, which Debian and systemd use.
const SECOND_OCTETS: std::ops::Range<u8> = 64..128;

/// Where the claim listens within the Pod network, above everything that is handed out.
const CLAIM: (u8, u8, u16) = (255, 254, 1);

/// The addresses of one run.
#[derive(Debug)]
pub(crate) struct AddressBlock {
    services: u8,
    pods: u8,
    next_pod: Mutex<u16>,
    _claim: TcpListener,
}

impl AddressBlock {
    /// Takes the first free block.
    pub(crate) fn claim() -> Result<Self> {
        SECOND_OCTETS
            .step_by(2)
            .find_map(|services| {
                let pods = services + 1;
                let (third, fourth, port) = CLAIM;
                let claim = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::new(127, pods, third, fourth), port)).ok()?;
                Some(Self { services, pods, next_pod: Mutex::new(1), _claim: claim })
            })
            .context("all loopback address blocks are in use: other runs of the suite are going on, or this is not root")
    }

    /// The network that cluster IPs come from, as the API server's flag wants it.
    pub(crate) fn service_network(&self) -> String {
        format!("127.{}.0.0/16", self.services)
    }

    /// Where the API server listens: the first of the Service network, which Kubernetes gives to `default/kubernetes`.
    pub(crate) fn api_server(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.services, 0, 1)
    }

    /// The address of what is outside the cluster: etcd, and the node.
    pub(crate) fn node(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.pods, 255, 253)
    }

    /// An address for one more Pod. They are not used twice within a run: nothing can reach a Pod by an old address.
    pub(crate) fn next_pod(&self) -> Ipv4Addr {
        let mut next = self.next_pod.lock().unwrap_or_else(PoisonError::into_inner);
        let [third, fourth] = next.to_be_bytes();
        *next += 1;
        Ipv4Addr::new(127, self.pods, third, fourth)
    }
}
