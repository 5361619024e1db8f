// Stage `diffusion` (full): a = σσᵀ of every environment, σ = diag(exp(log_scale)) noise.
#bind parameters, diffusion
#use grid
#use product

var<private> tile_environment: u32;

fn sigma(row: u32, k: u32) -> vec4<f32> {
    if (row >= job.dim || k >= job.stride) { return vec4<f32>(0.0); }
    let scale = exp(parameters[job.at_scale + tile_environment * job.stride + row / 4u][row % 4u]);
    return scale * parameters[job.at_noise + row * job.stride + k];
}

fn left(row: u32, k: u32) -> vec4<f32> { return sigma(row, k); }
fn right(row: u32, k: u32) -> vec4<f32> { return sigma(row, k); }

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (row >= job.dim || column >= job.stride) { return; }
    diffusion[tile_environment * job.diffusion_stride + row * job.stride + column] = value;
}

#use product_rows

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let tiles = job.column_tiles * job.column_tiles;
    tile_environment = group / tiles;
    product_rows(group % tiles / job.column_tiles, group % job.column_tiles, job.stride, thread);
}
