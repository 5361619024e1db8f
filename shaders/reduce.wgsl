// Stage `reduce`: adds the splits of ∂/∂W, and for every environment the columns that its blocks left. Identity 0;
// order fixed: chunks of 32 within a lane, lanes by a tree. The loss keeps its 16 lanes apart for the host, which adds
// them in f64.
#bind environments, columns, totals, partials, gradient, losses
#use grid
#use tree

fn lane_sum(column: u32, first: u32, count: u32, lane: u32) -> vec4<f32> {
    var sum = vec4<f32>(0.0);
    for (var chunk = lane; chunk < count; chunk += 512u) {
        var part = vec4<f32>(0.0);
        for (var block = chunk; block < min(chunk + 512u, count); block += 16u) {
            part += columns[(first + block) * job.columns_stride + column];
        }
        sum += part;
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    if (group < job.weight_groups) {
        let at = group * 256u + thread;
        let count = job.units * job.stride;
        if (at < count) {
            var sum = vec4<f32>(0.0);
            for (var split = 0u; split < job.splits; split++) { sum += partials[split * count + at]; }
            gradient[job.at_weights + at] = sum;
        }
        return;
    }
    let e = (group - job.weight_groups) / job.column_tiles;
    let column = (group - job.weight_groups) % job.column_tiles * 16u + thread % 16u;
    let lane = thread / 16u;
    let inside = column < job.columns_stride;
    var sum = vec4<f32>(0.0);
    if (inside) { sum = lane_sum(column, environments[e].first_block, environments[e].blocks, lane); }
    if (!ALL_PAIRS && column == 0u) {
        losses[16u * e + lane] = sum.x * environments[e].weight * f32(job.environments);
    }
    let total = sum_lanes(sum, thread);
    if (inside && lane == 0u) { totals[e * job.columns_stride + column] = total; }
}
