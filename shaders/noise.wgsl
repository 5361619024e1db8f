// Stage `noise` (full diffusion): ∂/∂noise = Σ_e diag(scale_e) (A_e + A_eᵀ) σ_e, σ_e = diag(scale_e) noise, as one sum
// of outer products over the rows of all environments.
#bind parameters, symmetric, gradient
#use grid
#use product

fn scale(e: u32, quad: u32) -> vec4<f32> { return exp(parameters[job.at_scale + e * job.stride + quad]); }

fn left(row: u32, quad: u32) -> vec4<f32> {
    let e = row / job.padded_dim;
    let r = row % job.padded_dim;
    if (r >= job.dim || quad >= job.stride) { return vec4<f32>(0.0); }
    return scale(e, quad) * symmetric[(e * job.dim + r) * job.stride + quad];
}

fn right(row: u32, quad: u32) -> vec4<f32> {
    let e = row / job.padded_dim;
    let r = row % job.padded_dim;
    if (r >= job.dim || quad >= job.stride) { return vec4<f32>(0.0); }
    return scale(e, r / 4u)[r % 4u] * parameters[job.at_noise + r * job.stride + quad];
}

fn store(row: u32, quad: u32, value: vec4<f32>) {
    if (row >= job.dim || quad >= job.stride) { return; }
    gradient[job.at_noise + row * job.stride + quad] = value;
}

#use product_columns

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    var tile = Tile();
    sum_outer(&tile, group / job.column_tiles, group % job.column_tiles, vec2<u32>(0u, job.environments * job.padded_dim), thread);
    store_tile(tile, group / job.column_tiles, group % job.column_tiles, thread);
}
