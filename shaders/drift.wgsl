// Stage `drift`: b = x Wᵀ + biases + shift of the row's environment (linear), or the MLP's activations γ(x Uᵀ + v).
#bind x, work, parameters
#use grid
#use rows
#use activation
#use product

fn left(row: u32, k: u32) -> vec4<f32> {
    if (k >= job.stride) { return vec4<f32>(0.0); }
    return x[row * job.stride + k];
}

fn right(unit: u32, k: u32) -> vec4<f32> {
    if (unit >= job.units || k >= job.stride) { return vec4<f32>(0.0); }
    return parameters[job.at_weights + unit * job.stride + k];
}

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (column >= job.unit_stride) { return; }
    if (MLP) {
        work[row * job.work_stride + job.at_hidden + column] = activate(value + parameters[job.at_hidden_biases + column]);
    } else {
        let shift = parameters[job.at_shift + block_of(row).environment * job.stride + column];
        work[row * job.work_stride + job.at_b + column] = value + (parameters[job.at_biases + column] + shift);
    }
}

#use product_rows

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    product_rows(group / job.column_tiles, group % job.column_tiles, job.stride, thread);
}
