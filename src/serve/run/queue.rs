//! Jobs that wait: clients take turns, and losses that can be evaluated together are taken together.

use crate::serve::domain::id::JobId;
use crate::serve::domain::request::Request;
use crate::serve::run::events::Live;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The most losses in one set of dispatches, and the most memory that they may need.
const TOGETHER: usize = 256;
const BYTES_TOGETHER: f64 = (1u64 << 30) as f64;

/// What a worker takes: a long job does not make short ones wait, nor either of them losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Losses that take a moment, many at once.
    Losses,
    /// Everything else that takes a moment.
    Short,
    /// What takes longer.
    Long,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 3] = [Lane::Losses, Lane::Short, Lane::Long];
}

/// A job that waits.
#[derive(Clone)]
pub struct Ticket {
    pub id: JobId,
    pub request: Arc<Request>,
    pub live: Arc<Live>,
    pub created: f64,
    /// Whether it takes a moment.
    pub short: bool,
    /// Memory that it needs.
    pub bytes: f64,
}

impl Ticket {
    /// Who takes it.
    fn lane(&self) -> Lane {
        match (&*self.request, self.short) {
            (Request::Loss(_), true) => Lane::Losses,
            (_, true) => Lane::Short,
            (_, false) => Lane::Long,
        }
    }

    /// Whether a device, by its name, may take it.
    fn suits(&self, device: &str) -> bool {
        self.request
            .device()
            .is_none_or(|wanted| wanted == "auto" || device.to_lowercase().contains(&wanted.to_lowercase()))
    }

    /// Whether both can be evaluated at once: short losses of the same model with the same settings, whatever the data.
    fn joins(&self, other: &Ticket) -> bool {
        match (&*self.request, &*other.request) {
            (Request::Loss(a), Request::Loss(b)) => {
                let same = (&a.model, a.objective, a.kernel, a.bandwidth, a.estimator, &a.device)
                    == (&b.model, b.objective, b.kernel, b.bandwidth, b.estimator, &b.device);
                same && self.short && other.short && !a.gradient && !b.gradient
            }
            _ => false,
        }
    }
}

#[derive(Default)]
struct Waiting {
    /// Clients in the order of their turns, each with its jobs in order.
    clients: VecDeque<(String, VecDeque<Ticket>)>,
    count: usize,
    /// Seats that were promised and not yet taken, of those who have some.
    promised: HashMap<String, usize>,
    closed: bool,
}

/// The queue.
pub struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    most: usize,
    most_each: usize,
    batching: bool,
}

/// Why there is no seat: so many wait already.
#[derive(Debug, PartialEq)]
pub enum Full {
    /// Of everyone together.
    Everyone(usize),
    /// Of the one who asks.
    Client(usize),
}

/// A place in the queue that nobody else gets while its owner's job is being written down.
pub struct Seat<'a> {
    queue: &'a Queue,
    client: String,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        match waiting.promised.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.promised.remove(&self.client)),
        }
    }
}

impl Queue {
    /// A queue for so many jobs of everyone and of each client; without `batching` every loss is evaluated alone.
    pub fn new(most: usize, most_each: usize, batching: bool) -> Self {
        Queue { waiting: Mutex::default(), changed: Condvar::new(), most, most_each, batching }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lock().count
    }

    /// A seat for another one of a client's, if there is room.
    pub fn seat(&self, client: &str) -> Result<Seat<'_>, Full> {
        let mut waiting = self.lock();
        let all = waiting.count + waiting.promised.values().sum::<usize>();
        if all >= self.most {
            return Err(Full::Everyone(waiting.count));
        }
        let tickets = waiting.clients.iter().find(|(name, _)| name == client).map_or(0, |(_, own)| own.len());
        let promised = waiting.promised.entry(client.to_owned()).or_default();
        if tickets + *promised >= self.most_each {
            if *promised == 0 {
                waiting.promised.remove(client);
            }
            return Err(Full::Client(tickets));
        }
        *promised += 1;
        Ok(Seat { queue: self, client: client.to_owned() })
    }

    /// Adds a job; those of an earlier run join whatever the length.
    pub fn push(&self, client: &str, ticket: Ticket) {
        let mut waiting = self.lock();
        waiting.count += 1;
        match waiting.clients.iter_mut().find(|(name, _)| name == client) {
            Some((_, tickets)) => tickets.push_back(ticket),
            None => waiting.clients.push_back((client.into(), VecDeque::from([ticket]))),
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Takes a job out; none if it does not wait any more.
    pub fn remove(&self, id: &JobId) -> Option<Ticket> {
        let mut waiting = self.lock();
        let mut found = None;
        for (_, tickets) in &mut waiting.clients {
            if let Some(place) = tickets.iter().position(|ticket| ticket.id == *id) {
                found = tickets.remove(place);
            }
        }
        if found.is_some() {
            waiting.count -= 1;
            waiting.clients.retain(|(_, tickets)| !tickets.is_empty());
        }
        found
    }

    /// The next job for a device and lane, and others that join it; waits for one, and gives none once the queue is closed.
    pub fn wait(&self, device: &str, lane: Lane) -> Option<Vec<Ticket>> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(taken) =
                self.take(&mut waiting, |ticket| ticket.lane() == lane && ticket.suits(device))
            {
                return Some(taken);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn take(&self, waiting: &mut Waiting, suits: impl Fn(&Ticket) -> bool) -> Option<Vec<Ticket>> {
        let turn = waiting.clients.iter().position(|(_, tickets)| tickets.iter().any(&suits))?;
        let (client, mut tickets) = waiting.clients.remove(turn)?;
        let place = tickets.iter().position(&suits)?;
        let first = tickets.remove(place)?;
        // Whoever had a turn goes to the end.
        waiting.clients.push_back((client, tickets));
        let (mut taken, mut bytes) = (vec![first.clone()], first.bytes);
        if self.batching {
            for (_, tickets) in &mut waiting.clients {
                tickets.retain(|ticket| {
                    let room = taken.len() < TOGETHER && bytes + ticket.bytes <= BYTES_TOGETHER;
                    let joins = room && first.joins(ticket);
                    if joins {
                        bytes += ticket.bytes;
                        taken.push(ticket.clone());
                    }
                    !joins
                });
            }
        }
        waiting.count -= taken.len();
        waiting.clients.retain(|(_, tickets)| !tickets.is_empty());
        Some(taken)
    }

    /// Lets workers go home.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(number: u32, request: &str) -> Ticket {
        Ticket {
            id: JobId::try_from(format!("{number:032x}")).unwrap(),
            request: Arc::new(serde_json::from_str(request).unwrap()),
            live: Arc::default(),
            created: 0.0,
            short: request.contains("loss"),
            bytes: 0.0,
        }
    }

    fn loss(data: char, estimator: &str) -> String {
        let (model, data) = ("a".repeat(64), data.to_string().repeat(64));
        format!(r#"{{"kind": "loss", "model": "{model}", "dataset": "{data}", "estimator": "{estimator}"}}"#)
    }

    fn fit(device: &str) -> String {
        format!(r#"{{"kind": "fit", "dataset": "{}", "device": "{device}"}}"#, "b".repeat(64))
    }

    fn numbers(taken: Option<Vec<Ticket>>) -> Vec<u32> {
        let number = |ticket: &Ticket| u32::from_str_radix(ticket.id.as_str(), 16).unwrap();
        taken.into_iter().flatten().map(|ticket| number(&ticket)).collect()
    }

    #[test]
    fn clients_take_turns() {
        let queue = Queue::new(10, 10, true);
        (1..=3).for_each(|k| queue.push("greedy", ticket(k, &fit("auto"))));
        queue.push("modest", ticket(4, &fit("auto")));
        let order: Vec<u32> = (0..4).flat_map(|_| numbers(queue.wait("cpu", Lane::Long))).collect();
        assert_eq!(order, [1, 4, 2, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn losses_with_the_same_settings_go_together_unless_told_otherwise() {
        for (batching, expected) in [(true, vec![1, 3, 4]), (false, vec![1])] {
            let queue = Queue::new(10, 10, batching);
            for (k, request) in
                [(1, loss('c', "u")), (2, loss('c', "v")), (3, loss('d', "u")), (4, loss('e', "u"))]
            {
                queue.push(if k < 4 { "one" } else { "two" }, ticket(k, &request));
            }
            let mut taken = numbers(queue.wait("cpu", Lane::Losses));
            taken.sort();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn losses_that_need_much_memory_go_one_after_the_other() {
        let queue = Queue::new(10, 10, true);
        for k in 1..=4 {
            queue.push("one", Ticket { bytes: 0.4 * BYTES_TOGETHER, ..ticket(k, &loss('c', "u")) });
        }
        assert_eq!(numbers(queue.wait("cpu", Lane::Losses)), [1, 2]);
        assert_eq!(numbers(queue.wait("cpu", Lane::Losses)), [3, 4]);
    }

    #[test]
    fn devices_and_lanes_take_what_suits_them() {
        let queue = Queue::new(10, 10, true);
        queue.push("one", ticket(1, &fit("radeon")));
        queue.push("one", ticket(2, &fit("CPU")));
        queue.push("one", ticket(3, &loss('c', "u")));
        queue.push("one", Ticket { short: true, ..ticket(4, &fit("auto")) });
        assert_eq!(numbers(queue.wait("cpu", Lane::Losses)), [3]);
        assert_eq!(numbers(queue.wait("cpu", Lane::Short)), [4]);
        assert_eq!(numbers(queue.wait("cpu", Lane::Long)), [2]);
        assert_eq!(numbers(queue.wait("AMD Radeon", Lane::Long)), [1]);
        queue.close();
        assert!(Lane::ALL.into_iter().all(|lane| queue.wait("cpu", lane).is_none()));
    }

    #[test]
    fn a_job_that_waits_can_be_taken_out_and_a_full_queue_says_so() {
        let queue = Queue::new(1, 1, true);
        queue.push("one", ticket(1, &fit("auto")));
        assert_eq!(queue.seat("one").err(), Some(Full::Everyone(1)));
        let id = JobId::try_from(format!("{:032x}", 1)).unwrap();
        assert!(queue.remove(&id).is_some() && queue.remove(&id).is_none());
        let seat = queue.seat("one");
        assert!(seat.is_ok() && queue.seat("one").is_err(), "a seat that was promised is taken");
        drop(seat);
        assert!(queue.seat("one").is_ok());
    }

    #[test]
    fn one_client_cannot_take_all_seats() {
        let queue = Queue::new(5, 2, true);
        queue.push("greedy", ticket(1, &fit("auto")));
        let seat = queue.seat("greedy").unwrap();
        assert_eq!(queue.seat("greedy").err(), Some(Full::Client(1)));
        let others: Vec<_> = ["a", "b", "c"].map(|client| queue.seat(client)).into_iter().flatten().collect();
        assert_eq!(others.len(), 3);
        assert_eq!(queue.seat("d").err(), Some(Full::Everyone(1)));
        drop((seat, others));
        assert!(queue.seat("greedy").is_ok());
        assert!(queue.lock().promised.is_empty(), "seats that are free are not remembered");
    }
}
