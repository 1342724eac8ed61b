"""RocketMQ 5's gRPC protocol from a client's side. Needs `mqclient[rocketmq]`: grpcio, protobuf."""
