// Stage `turn` (all pairs, full diffusion): a R_z of every row, which `adjoint` adds to ∂/∂b̃.
#use grid
#use rows
#use product
#use diffusion_rows
#use sums

fn left(row: u32, k: u32) -> vec4<f32> {
    if (k >= job.stride) { return vec4<f32>(0.0); }
    return job.z_factor * sum_of(row, SUM_Z, k);
}

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (column >= job.stride) { return; }
    work[row * job.work_stride + job.at_left + column] = value;
}

#use product_rows

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    tile_environment = block_of(group / job.column_tiles * TILE).environment;
    product_rows(group / job.column_tiles, group % job.column_tiles, job.stride, thread);
}
