//! The way of a review through the program, without the network: read, decided, answered.
//!
//! What the registry would say is made up front, so that what is measured is the program's own work.

use isvc_registrar::admission::{Decision, Policies, Reply, Request, conclude, decide, respond};
use isvc_registrar::kserve::LabelKeys;
use isvc_registrar::registration::ownership::Tie;
use isvc_registrar::registration::{Origin, Registered};
use serde_json::json;

use crate::reviews::{MODEL_ID, NAME};

/// Everything that the path needs beside a body.
pub struct Path {
    policies: Policies,
    keys: LabelKeys,
    found: Reply,
}

impl Default for Path {
    fn default() -> Self {
        let entry = json!({
            "id": "4711", "name": NAME, "registeredModelId": MODEL_ID.to_string(), "servingEnvironmentId": "3",
        });
        let entry = serde_json::from_value(entry).expect("it has all that an entry needs");
        let registered = Registered { entry, origin: Origin::Found, tie: Tie::Ours, archived: None };
        Self {
            policies: Policies::default(),
            keys: LabelKeys::default(),
            found: Reply::Registered(Box::new(registered)),
        }
    }
}

impl Path {
    /// From the wire to what is asked.
    ///
    /// # Panics
    /// If the body is no review.
    #[must_use]
    pub fn read(&self, body: &[u8]) -> Request {
        Request::read(body, &self.keys).expect("every body here is a review")
    }

    /// What the table says.
    #[must_use]
    pub fn decide(&self, request: &Request) -> Decision {
        decide(request, &self.policies, &self.keys)
    }

    /// From a decision, and what the registry said where that was asked, to the wire: with a patch after a CREATE.
    #[must_use]
    pub fn answer(&self, request: &Request, decision: &Decision) -> Vec<u8> {
        match decision {
            Decision::Answer(answer) => respond(request, answer, &self.keys),
            Decision::Ask(question) => {
                let answer =
                    conclude(question, &self.found, "model-registry-service", &self.policies, &self.keys);
                respond(request, &answer, &self.keys)
            }
        }
    }
}
