// Stage `noise` (full diffusion): ∂/∂noise = Σ_e diag(scale_e) (A_e + A_eᵀ) diag(scale_e) noise, as one sum of outer
// products over the rows of all environments. `symmetric` has the scales already.
#bind parameters, symmetric
#use grid
#use gradient
#use product

var<private> e: u32;
var<private> lane: u32; // the thread's row of depth

fn left_at(depth: u32, quad: u32) -> u32 {
    lane = depth;
    return e * job.dim * job.stride + min(quad, job.stride - 1u);
}
// Rows of padding count as 0.
fn left(at: u32, row: u32) -> vec4<f32> {
    let here = row + lane;
    return select(vec4<f32>(0.0), symmetric[at + min(here, job.dim - 1u) * job.stride], here < job.dim);
}
fn right_at(depth: u32, quad: u32) -> u32 { return job.at_noise + min(quad, job.stride - 1u); }
fn right(at: u32, row: u32) -> vec4<f32> { return parameters[at + min(row + lane, job.dim - 1u) * job.stride]; }

fn store(row: u32, quad: u32, value: vec4<f32>) {
    if (row >= job.dim || quad >= job.stride) { return; }
    put_gradient(job.at_noise + row * job.stride + quad, value);
}

#use product_columns

@compute @workgroup_size(TILE_THREADS)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    var tile = Tile();
    for (var here = 0u; here < job.environments; here++) {
        e = here;
        sum_outer(&tile, group / job.column_tiles, group % job.column_tiles, vec2<u32>(0u, job.padded_dim), thread);
    }
    store_tile(tile, group / job.column_tiles, group % job.column_tiles, thread);
}
