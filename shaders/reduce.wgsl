// Stage `reduce`: adds the splits of ∂/∂W if there are any, and for every environment the columns that its blocks left. Identity 0;
// order fixed: chunks of 32 within a lane, lanes by a tree. The loss keeps its 16 lanes apart for the host, which adds
// them in f64.
#bind environments, columns, totals, losses
#use grid
#use tree
#use noted
#use reduce_source

// Of `count` records from `first` on, `step` quads apart.
fn lane_sum(first: u32, step: u32, count: u32, lane: u32) -> vec4<f32> {
    var sum = vec4<f32>(0.0);
    for (var chunk = lane; chunk < count; chunk += 512u) {
        var part = vec4<f32>(0.0);
        for (var at = chunk; at < min(chunk + 512u, count); at += 16u) { part += columns[first + at * step]; }
        sum += part;
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    if (group < job.weight_groups) {
        add_splits(group * 256u + thread);
        return;
    }
    let e = (group - job.weight_groups) / job.column_tiles;
    let column = (group - job.weight_groups) % job.column_tiles * 16u + thread % 16u;
    let lane = thread / 16u;
    let inside = column < job.columns_stride;
    var sum = vec4<f32>(0.0);
    let here = environments[e];
    if (!ALL_PAIRS && column == 0u) {
        // (term, ∂/∂tr a, ∂/∂tr a², 0) of every workgroup of `pairs`.
        let groups = ROW_BLOCK / GROUP_ROWS;
        sum = lane_sum(job.at_terms + here.first_block * groups, 1u, here.blocks * groups, lane);
        let loss = sum.x * here.weight * f32(job.environments);
        losses[16u * e + lane] = loss;
        note_loss(16u * e + lane, loss);
    } else if (inside) {
        sum = lane_sum(here.first_block * job.columns_stride + column, job.columns_stride, here.blocks, lane);
    }
    let total = sum_lanes(sum, thread);
    if (inside && lane == 0u) { totals[e * job.columns_stride + column] = total; }
}
