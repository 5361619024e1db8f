// Each split of the rows leaves a partial product; `reduce` adds them.
#bind partials

fn put(split: u32, at: u32, value: vec4<f32>) {
    let place = split * job.units * job.stride + at;
    if (job.accumulate != 0u) { partials[place] += value; } else { partials[place] = value; }
}
