//! A network namespace with one link to the machine's own network, on which packets can really be dropped.
//!
//! Invariants: dropped packets are neither answered nor refused, as behind a firewall or after the loss of a host: both
//! ends send them to a link-layer address that nobody has. The namespace is deleted with this; a test process that is
//! killed leaves an empty one behind, which the next one of its number replaces.

#![expect(clippy::unwrap_used, reason = "a network that cannot be made fails the test")]

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A link-layer address without a device.
const NOBODY: &str = "02:00:00:00:00:99";
/// The networks of this process; the addresses of a network are made of its number.
static NEXT: AtomicU8 = AtomicU8::new(0);

#[derive(Debug)]
pub struct Network {
    name: String,
    /// The two ends of the link: on the machine, and in the namespace.
    links: [String; 2],
    addresses: [Ipv4Addr; 2],
}

impl Network {
    pub fn start() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        // 198.18.0.0/15 is set aside for tests of networks. A network has four addresses.
        let [_, _, third, last] = (process.wrapping_mul(4) % 0xfffc).to_be_bytes();
        let address = |end: u8| Ipv4Addr::new(198, 18 + number % 2, third, (last & 0xfc) + end);
        let name = format!("tidegate-{process}-{number}");
        let links = ["a", "b"].map(|end| format!("tg{process}{number}{end}"));
        let network = Self { name, links, addresses: [address(1), address(2)] };
        network.create();
        network
    }

    fn create(&self) {
        let Self { name, links: [ours, theirs], addresses: [our_address, their_address] } = self;
        ip(&["netns", "add", name]);
        ip(&["link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name]);
        ip(&["addr", "add", &format!("{our_address}/30"), "dev", ours]);
        ip(&["link", "set", ours, "up"]);
        ip(&["-n", name, "addr", "add", &format!("{their_address}/30"), "dev", theirs]);
        ip(&["-n", name, "link", "set", theirs, "up"]);
        ip(&["-n", name, "link", "set", "lo", "up"]);
    }

    /// The address of what listens in the namespace.
    pub fn address(&self) -> Ipv4Addr {
        self.addresses[1]
    }

    /// Runs `start` on a thread in the namespace; the processes that it starts stay there.
    pub fn run<T: Send>(&self, start: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        std::thread::scope(|scope| {
            let started = scope.spawn(move || {
                let namespace = File::open(path).unwrap();
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                start()
            });
            started.join().unwrap()
        })
    }

    /// Drops all packets in both directions.
    pub fn drop_packets(&self) {
        let [ours, theirs] = self.addresses.map(|address| address.to_string());
        let lost = ["lladdr", NOBODY, "nud", "permanent", "dev"];
        ip(&[&["neigh", "replace", &theirs][..], &lost, &[&self.links[0]]].concat());
        ip(&[&["-n", &self.name, "neigh", "replace", &ours][..], &lost, &[&self.links[1]]].concat());
    }

    pub fn forward_packets(&self) {
        let [ours, theirs] = self.addresses.map(|address| address.to_string());
        ip(&["neigh", "del", &theirs, "dev", &self.links[0]]);
        ip(&["-n", &self.name, "neigh", "del", &ours, "dev", &self.links[1]]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The other end of the link, and the namespace once nothing runs in it, go with these.
        for command in [["link", "del", self.links[0].as_str()], ["netns", "del", &self.name]] {
            let _ = Command::new("ip").args(command).output();
        }
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output();
    let output = output.expect("iproute2 is needed: apt-get install iproute2");
    assert!(
        output.status.success(),
        "a network namespace is needed, which takes root and a kernel that allows it (in a container: \
         --cap-add SYS_ADMIN --cap-add NET_ADMIN): ip {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}
