//! A service whose worker has a GPU: here one in software.

use crate::server::Server;
use crate::small_data;
use serde_json::json;

#[test]
fn a_gpu_computes_the_same_lets_short_jobs_pass_and_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let at = |name: &str| folder.path().join(name);
    let (cpu, gpu) = (
        Server::start(&at("cpu"), &[]),
        // Without a Vulkan device this fails and says what to install.
        Server::start_in("exec \"$@\"", "gpu", &at("gpu"), &[]),
    );
    let (cpu, gpu) = (cpu.client(), gpu.client());
    assert_eq!(gpu.get("/v1/devices").expect(200)["devices"].as_array().unwrap().len(), 1);
    let data = cpu.upload("train.npz", &bytes);
    assert_eq!(gpu.upload("train.npz", &bytes), data);
    let fit = json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } });
    // Without a device that is asked for by name an exact fit is the CPU's, in f64: the same bytes.
    let model = cpu.run(&fit)["result"]["model"].clone();
    assert_eq!(gpu.run(&fit)["result"]["model"], model);

    let long = json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 4_000_000, "batch": 64 } });
    let id = gpu.submit(&long);
    gpu.wait_for(&id, &["running"]);
    let loss = json!({ "kind": "loss", "model": model, "dataset": data, "bandwidth": 2, "estimator": "v" });
    let [here, there] = [&cpu, &gpu].map(|client| client.run(&loss)["result"]["loss"].as_f64().unwrap());
    assert!((here - there).abs() < 1e-4 * here.abs(), "{here} {there}");
    let sample =
        gpu.run(&json!({ "kind": "sample", "model": model, "n": 64, "method": "euler", "burn_in": 50 }));
    assert_eq!(sample["state"], "done", "{sample}");
    assert_eq!(gpu.get(&format!("/v1/jobs/{id}")).expect(200)["state"], "running");
    gpu.post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
    assert_eq!(gpu.wait_for(&id, &["cancelled", "done"])["state"], "cancelled");
}
