//! A sampler at work: what it hands to the engine while the server and the network misbehave.
