// The rows are not split: their sum is the gradient.
#use gradient

fn put(split: u32, at: u32, value: vec4<f32>) {
    let place = job.at_weights + at;
    if (job.accumulate != 0u) { put_gradient(place, gradient[place] + value); } else { put_gradient(place, value); }
}
