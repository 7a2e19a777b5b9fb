//! A real Kubernetes control plane on loopback, for the tests of isvc-registrar.
