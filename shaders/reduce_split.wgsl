// Adds the splits of ∂/∂W.
#bind partials
#use gradient

fn add_splits(at: u32) {
    let count = job.units * job.stride;
    if (at >= count) { return; }
    var sum = vec4<f32>(0.0);
    for (var split = 0u; split < job.splits; split++) { sum += partials[split * count + at]; }
    put_gradient(job.at_weights + at, sum);
}
